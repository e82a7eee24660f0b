#include "daemon/upgrade/new_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/base/errno_error.h"
#include "daemon/host/capabilities.h"

namespace lyre {
namespace {

/// The watchdog is that of the new process, too: systemd's variable names this one.
std::vector<char*> environment_of_new_process() {
  std::vector<char*> out;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("WATCHDOG_PID=")) out.push_back(*entry);
  }
  out.push_back(nullptr);
  return out;
}

/// What a child gets: signals as a service manager gives them, and three descriptors and ours.
class SpawnTerms {
 public:
  explicit SpawnTerms(int socket) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, socket, kUpgradeDescriptor);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kUpgradeDescriptor + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnTerms() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnTerms(const SpawnTerms&) = delete;
  SpawnTerms& operator=(const SpawnTerms&) = delete;

  int spawn(pid_t& pid, const std::string& program, char* const* arguments) const {
    std::vector<char*> environment = environment_of_new_process();
    return ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, arguments,
                         environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

std::string program_path() {
  char path[PATH_MAX];
  const ssize_t bytes = ::readlink("/proc/self/exe", path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : std::string();
}

Status check_may_be_replaced(pid_t own, const char* container_main) {
  // With the host's process numbers, a container's first process is not 1.
  const bool is_main = container_main != nullptr && container_main == std::to_string(own);
  if (own != 1 && !is_main) return Ok{};
  return Error{ENOTSUP, "the daemon is the first process of its container, which ends with it"};
}

Result<NewProcess> NewProcess::start(const std::string& program,
                                     const std::vector<std::string>& arguments) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("no socket for the new process");
  }
  OwnedFd own(ends[0]);
  // Above the place where the new process finds it: dup2() onto itself would keep FD_CLOEXEC.
  OwnedFd others(::fcntl(ends[1], F_DUPFD_CLOEXEC, kUpgradeDescriptor + 1));
  ::close(ends[1]);
  if (!others.is_open()) return errno_error("no socket for the new process");
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t pid = -1;
  const InheritedCapabilities inherited;
  const int code = SpawnTerms(others.get()).spawn(pid, program, words.data());
  if (code != 0) return Error{code, program + ": " + std::strerror(code)};
  return NewProcess(pid, std::move(own));
}

NewProcess::NewProcess(NewProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}

NewProcess& NewProcess::operator=(NewProcess&& other) noexcept {
  if (this == &other) return *this;
  kill();
  pid_ = std::exchange(other.pid_, -1);
  socket_ = std::move(other.socket_);
  return *this;
}

ProcessEnd NewProcess::await_end(Nanos patience) {
  constexpr useconds_t kTryUs = 1000;
  int status = 0;
  pid_t ended = 0;
  for (int64_t waited = 0; ended == 0 && waited < patience.value; waited += kTryUs * 1000) {
    ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0) ::usleep(kTryUs);
  }
  if (ended == 0) {
    kill();
    return {.text = "did not end and was killed"};
  }
  pid_ = -1;
  if (ended < 0) return {.text = "is gone"};
  if (WIFSIGNALED(status)) {
    return {.text = "was ended by signal " + std::to_string(WTERMSIG(status))};
  }
  return {.text = "ended with status " + std::to_string(WEXITSTATUS(status)), .has_exited = true};
}

void NewProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace lyre
