#include "tools/lyre/child_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace lyre::tools {
namespace {

constexpr int kSignalBase = 128;

/// cron and a plain su leave the folders of programs for root out of PATH. The child has them, too:
/// driverctl is a script that calls others.
void extend_path() {
  constexpr std::string_view kFolders = ":" LYRE_BIN_DIR ":/usr/sbin:/sbin";
  const char* set = std::getenv("PATH");
  std::string path = set != nullptr && *set != '\0' ? set : "/usr/bin:/bin";
  if (!path.ends_with(kFolders)) ::setenv("PATH", path.append(kFolders).c_str(), 1);
}

std::optional<int> exit_status(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

/// Attributes of a child. An ignored signal stays ignored in the program that a child executes,
/// which may rely on SIGPIPE to end.
class DefaultPipeSignal {
 public:
  DefaultPipeSignal() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGPIPE);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  ~DefaultPipeSignal() { ::posix_spawnattr_destroy(&attributes_); }
  DefaultPipeSignal(const DefaultPipeSignal&) = delete;
  DefaultPipeSignal& operator=(const DefaultPipeSignal&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

/// posix_spawnp() says EACCES also of a program that is nowhere, where a folder of PATH may not be
/// searched. REQUIRES: extend_path() has set PATH.
bool is_anywhere(const std::string& program) {
  if (program.find('/') != std::string::npos) return true;
  std::istringstream folders(std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), F_OK) == 0) return true;
  }
  return false;
}

std::optional<pid_t> start(const std::vector<std::string>& command,
                           const posix_spawn_file_actions_t* actions) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  extend_path();
  const DefaultPipeSignal attributes;
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], actions, attributes.get(), arguments.data(), environ);
  if (error == 0) return child;
  errno = error == EACCES && !is_anywhere(command[0]) ? ENOENT : error;
  return std::nullopt;
}

}  // namespace

std::optional<int> run_program(const std::vector<std::string>& command) {
  const auto child = start(command, nullptr);
  return child ? exit_status(*child) : std::nullopt;
}

std::optional<int> run_program(const std::vector<std::string>& command, std::string& output) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  const auto child = start(command, &actions);
  const int error = errno;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  char buffer[4096];
  ssize_t count = 0;
  while (child && (count = ::read(ends[0], buffer, sizeof buffer)) > 0) {
    output.append(buffer, static_cast<size_t>(count));
  }
  ::close(ends[0]);
  errno = error;
  return child ? exit_status(*child) : std::nullopt;
}

}  // namespace lyre::tools
