#include "tests/support/daemon_pair.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lyre/lyre.h"
#include "tests/support/deadline.h"

namespace lyre::test {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kReadyTimeout = 30s;
constexpr auto kStopTimeout = 60s;
constexpr auto kPause = 10ms;

/// The hosts use different cores, where there are several.
std::string cores_of(int host, int workers) {
  const auto there = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  std::string text;
  for (int i = 0; i < std::min(workers, there); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string((host + i) % there);
  }
  return text;
}

std::string describe_end(const siginfo_t& end) {
  return (end.si_code == CLD_EXITED ? "exit status " : "signal ") + std::to_string(end.si_status);
}

}  // namespace

DaemonPair::DaemonPair(const std::string& lyred, const std::string& extra_tcp_toml, int workers)
    : lyred_(lyred), workers_(workers) {
  std::string pattern = (std::filesystem::temp_directory_path() / "lyre-pair-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
  directory_ = pattern;
  try {
    for (const int host : {0, 1}) {
      write_config(host, extra_tcp_toml);
      start(host);
      // The wire's client end starts only after its server end listens.
      await_ready(host, Wire::kAny);
    }
    for (const int host : {0, 1}) await_ready(host, Wire::kUp);
  } catch (...) {
    end_all(SIGKILL);
    throw;
  }
}

DaemonPair::~DaemonPair() { end_all(SIGTERM); }

void DaemonPair::end_all(int signal) {
  for (const int host : {0, 1}) stop(host, signal);
  for (const pid_t pid : dead_) ::waitpid(pid, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void DaemonPair::write_config(int host, const std::string& extra_tcp_toml) {
  Host& own = hosts_[index(host)];
  const std::string stem = directory_ + "/host" + std::to_string(host);
  own.config = stem + ".toml";
  own.socket = stem + ".sock";
  own.log = stem + ".log";
  std::ofstream out(own.config);
  out << "[daemon]\n"
      << "name = \"" << std::filesystem::path(directory_).filename().string() << "-" << host
      << "\"\n"
      << "socket = \"" << own.socket << "\"\n"
      << "socket_group = \"\"\n"
      << "[workers]\ncores = [" << cores_of(host, workers_) << "]\n"
      << "[memory]\nhugepages = \"no\"\n"
      << "[tcp]\n"
      << extra_tcp_toml << "[[port]]\nname = \"rail0\"\n"
      << "device = \"net_memif0,role=" << (host == 0 ? "server" : "client")
      << ",socket=" << directory_ << "/memif.sock,socket-abstract=no\"\n"
      << "address = \"" << address(host) << "/24\"\n";
}

void DaemonPair::start(int host) {
  Host& own = hosts_[index(host)];
  const pid_t parent = ::getpid();
  own.pid = ::fork();
  if (own.pid < 0) throw std::runtime_error("cannot fork");
  if (own.pid > 0) return;
  // When the test is killed, its daemons are killed too.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int log = ::open(own.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execl(lyred_.c_str(), lyred_.c_str(), "--config", own.config.c_str(), nullptr);
  ::_exit(127);
}

void DaemonPair::await_ready(int host, Wire wire) {
  const Deadline deadline(kReadyTimeout);
  const lyre_options options{.struct_bytes = sizeof options,
                             .socket_path = socket(host).c_str(),
                             .label = "ready",
                             .arena_bytes = 0};
  while (!deadline.is_over() && is_running(host)) {
    lyre_context* context = nullptr;
    if (lyre_context_open(&options, &context) == 0) {
      lyre_port port{.struct_bytes = sizeof port};
      const bool is_up = lyre_port_info(context, 0, &port) == 0 && port.is_link_up != 0;
      lyre_context_close(context);
      if (is_up || wire == Wire::kAny) return;
    }
    std::this_thread::sleep_for(kPause);
  }
  throw std::runtime_error("lyred of host " + std::to_string(host) + " did not become ready:\n" +
                           log_tail(host));
}

bool DaemonPair::is_running(int host) {
  Host& own = hosts_[index(host)];
  if (own.pid <= 0) return false;
  // Reaped later: while another process reads the daemon's entry in /proc, a busy kernel without
  // preemption spins there, up to a minute, and a restarted daemon would be late.
  siginfo_t end = {};
  if (::waitid(P_PID, static_cast<id_t>(own.pid), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      end.si_pid == 0) {
    return true;
  }
  own.end = describe_end(end);
  dead_.push_back(own.pid);
  own.pid = -1;
  return false;
}

void DaemonPair::stop(int host, int signal) {
  Host& own = hosts_[index(host)];
  if (is_running(host)) ::kill(own.pid, signal);
  const auto deadline = Clock::now() + kStopTimeout;
  while (is_running(host)) {
    if (Clock::now() > deadline) ::kill(own.pid, SIGKILL);
    std::this_thread::sleep_for(kPause);
  }
  check_end(host, signal == SIGKILL ? "signal " + std::to_string(SIGKILL) : "exit status 0");
}

std::string DaemonPair::await_end(int host) {
  const Deadline deadline(kStopTimeout);
  while (is_running(host) && !deadline.is_over()) std::this_thread::sleep_for(kPause);
  return std::exchange(hosts_[index(host)].end, "");
}

void DaemonPair::check_end(int host, const std::string& expected) {
  const std::string end = std::exchange(hosts_[index(host)].end, "");
  if (end.empty() || end == expected) return;
  ADD_FAILURE() << "lyred of host " << host << " ended with " << end << ", not with " << expected
                << "\n"
                << log_tail(host);
}

void DaemonPair::kill(int host) { stop(host, SIGKILL); }

void DaemonPair::terminate(int host) { stop(host, SIGTERM); }

void DaemonPair::restart(int host, Wire wire) {
  start(host);
  await_ready(host, wire);
}

std::string DaemonPair::log(int host) const {
  std::ifstream in(hosts_[index(host)].log);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string DaemonPair::log_tail(int host) const {
  constexpr size_t kTailBytes = 4000;
  const std::string all = log(host);
  return all.size() > kTailBytes ? all.substr(all.size() - kTailBytes) : all;
}

}  // namespace lyre::test
