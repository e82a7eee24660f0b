#include "tests/adapter/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace lyre::test {
namespace {

struct Child {
  pid_t pid = -1;
  FILE* errors = nullptr;
};

[[noreturn]] void run_body(const RankBody& body, Rank rank, int errors_fd, int seconds) {
  ::dup2(errors_fd, STDERR_FILENO);
  ::alarm(static_cast<unsigned>(seconds));
  try {
    body(rank);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << rank.index() << ": " << error.what();
  }
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

std::string read_all(FILE* file) {
  std::string text;
  std::rewind(file);
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) text.append(buffer, n);
  std::fclose(file);
  return text;
}

}  // namespace

void Rank::send(const void* data, size_t bytes) {
  const ssize_t n = ::send(fd_, data, bytes, MSG_NOSIGNAL);
  (void)n;  // receive() reports a rank that has ended
}

bool Rank::receive(void* data, size_t bytes) {
  return ::recv(fd_, data, bytes, 0) == static_cast<ssize_t>(bytes);
}

void Rank::barrier() {
  char token = 'm';
  send(&token, 1);
  (void)receive(&token, 1);
}

std::vector<RankEnd> run_ranks(const std::vector<RankBody>& bodies, int seconds,
                               const std::function<void()>& meanwhile) {
  int pair[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  std::fflush(nullptr);
  std::vector<Child> children(bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    children[i].errors = std::tmpfile();
    children[i].pid = ::fork();
    if (children[i].pid != 0) continue;
    ::close(pair[1 - i % 2]);
    run_body(bodies[i], Rank(static_cast<int>(i), pair[i % 2]), ::fileno(children[i].errors),
             seconds);
  }
  ::close(pair[0]);
  ::close(pair[1]);
  if (meanwhile) meanwhile();
  std::vector<RankEnd> ends(bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    int status = 0;
    // The kernel may delay this by seconds: see DaemonPair::is_running().
    ::waitpid(children[i].pid, &status, 0);
    if (WIFEXITED(status)) ends[i].exit_status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ends[i].signal = WTERMSIG(status);
    ends[i].stderr_text = read_all(children[i].errors);
  }
  return ends;
}

void expect_ranks(const std::vector<RankBody>& bodies, int seconds) {
  const std::vector<RankEnd> ends = run_ranks(bodies, seconds);
  for (size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(ends[i].exit_status, 0) << "rank " << i << ", signal " << ends[i].signal << "\n"
                                      << ends[i].stderr_text;
  }
}

}  // namespace lyre::test
