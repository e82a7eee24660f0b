#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace lyre::test {

/// Two lyred processes on this machine, hosts 0 and 1, connected by a memif wire. Their files are
/// in a temporary directory, removed with this object. Thread: one. Fails: the constructor throws
/// std::runtime_error with the end of the daemon's log. The running test fails when a daemon ends
/// with another exit status than 0, or does not stop in time, unless kill() ended it or await_end()
/// returned how it ended.
class DaemonPair {
 public:
  /// `lyred` is the program; `extra_tcp_toml` is added to the [tcp] section of both configurations.
  /// Each has `workers`, limited by the number of cores.
  explicit DaemonPair(const std::string& lyred, const std::string& extra_tcp_toml = "",
                      int workers = 1);
  ~DaemonPair();
  DaemonPair(const DaemonPair&) = delete;
  DaemonPair& operator=(const DaemonPair&) = delete;

  /// The control socket's path, and the host's address on the wire.
  const std::string& socket(int host) const { return hosts_[index(host)].socket; }
  std::string address(int host) const { return "10.77.0." + std::to_string(host + 1); }
  pid_t pid(int host) const { return hosts_[index(host)].pid; }
  bool is_running(int host);
  /// Sends SIGKILL, and waits for the end. A test whose child process has sent it calls this, too.
  void kill(int host);
  /// Asks it to stop in order (SIGTERM), and waits for the end.
  void terminate(int host);
  /// Waits until it has ended by itself. Returns how: "exit status 1", "signal 6"; "" if it runs on
  /// for a minute.
  std::string await_end(int host);
  enum class Wire { kAny, kUp };
  /// Starts a host that has ended. Waits until it answers and its wire is in the state `wire`.
  void restart(int host, Wire wire = Wire::kUp);
  /// The log of the host's daemons, and its end.
  std::string log(int host) const;
  std::string log_tail(int host) const;

 private:
  struct Host {
    std::string config;
    std::string socket;
    std::string log;
    pid_t pid = -1;
    std::string end;  // how the last process ended, until it is checked
  };

  static size_t index(int host) { return static_cast<size_t>(host); }
  void write_config(int host, const std::string& extra_tcp_toml);
  void start(int host);
  void await_ready(int host, Wire wire);
  void stop(int host, int signal);
  void check_end(int host, const std::string& expected);
  void end_all(int signal);

  std::string lyred_;
  int workers_;
  std::string directory_;
  std::array<Host, 2> hosts_;
  std::vector<pid_t> dead_;  // ended, not reaped yet
};

}  // namespace lyre::test
