#include "tools/lyre/allreduce/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/job_json.h"

namespace lyre::allreduce {
namespace {

constexpr std::chrono::milliseconds kExitTimeout{3000};

std::optional<int> wait_for(pid_t pid, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return status;
    if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
    ::usleep(1000);
  }
}

void kill_and_wait(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

nlohmann::json describe_status(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return nullptr;
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  return "killed by signal " + std::to_string(WTERMSIG(status));
}

// Between fork and exec only async-signal-safe calls.
[[noreturn]] void become_rank(int fd, const char* fd_text, bool has_own_session) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It does not fail: a new process leads no process group.
  if (has_own_session) ::setsid();
  ::fcntl(fd, F_SETFD, 0);
  const char* argv[] = {"lyre", "allreduce", "--rank-process", fd_text, nullptr};
  ::execv("/proc/self/exe", const_cast<char* const*>(argv));
  ::_exit(127);
}

}  // namespace

void RankProcesses::start(const Job& job) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    throw Failure(std::string("socketpair: ") + std::strerror(errno));
  }
  const std::string fd_text = std::to_string(pair[1]);
  const pid_t pid = ::fork();
  if (pid == 0) become_rank(pair[1], fd_text.c_str(), own_sessions_);
  ::close(pair[1]);
  if (pid < 0) {
    ::close(pair[0]);
    throw Failure(std::string("fork: ") + std::strerror(errno));
  }
  processes_[job.rank] = Process{pid, pair[0], {}};
  send({FrameType::kJob, static_cast<uint16_t>(job.rank), job});
}

std::vector<int> RankProcesses::descriptors() const {
  std::vector<int> descriptors;
  for (const auto& [rank, process] : processes_) descriptors.push_back(process.fd);
  return descriptors;
}

Frame RankProcesses::reap(int rank, Process* process) {
  ::close(process->fd);
  nlohmann::json how = "it did not end after closing its channel";
  if (const std::optional<int> status = wait_for(process->pid, kExitTimeout)) {
    how = describe_status(*status);
  } else {
    kill_and_wait(process->pid);
  }
  return {FrameType::kExited, static_cast<uint16_t>(rank), std::move(how)};
}

std::vector<Frame> RankProcesses::receive(const std::vector<int>& readable) {
  std::vector<Frame> frames;
  for (auto it = processes_.begin(); it != processes_.end();) {
    auto& [rank, process] = *it;
    if (std::find(readable.begin(), readable.end(), process.fd) == readable.end()) {
      ++it;
      continue;
    }
    const bool open = process.reader.read_some(process.fd);
    while (std::optional<Frame> frame = process.reader.next()) {
      frame->rank = static_cast<uint16_t>(rank);
      frames.push_back(std::move(*frame));
    }
    if (open) {
      ++it;
      continue;
    }
    frames.push_back(reap(rank, &process));
    it = processes_.erase(it);
  }
  return frames;
}

bool RankProcesses::send(const Frame& frame) {
  const auto it = processes_.find(frame.rank);
  return it != processes_.end() && send_frame(it->second.fd, frame);
}

void RankProcesses::kill_all() {
  for (auto& [rank, process] : processes_) ::kill(process.pid, SIGKILL);
  for (auto& [rank, process] : processes_) {
    kill_and_wait(process.pid);
    ::close(process.fd);
  }
  processes_.clear();
}

}  // namespace lyre::allreduce
