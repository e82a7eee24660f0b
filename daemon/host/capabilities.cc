#include "daemon/host/capabilities.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/errno_error.h"

namespace lyre {
namespace {

constexpr int kSignal = SIGUSR2;
constexpr auto kPatience = std::chrono::seconds(2);
constexpr const char* kTasks = "/proc/self/task";

std::atomic<Capabilities> g_kept{0};

std::array<__user_cap_data_struct, 2> halves_of(Capabilities set) {
  const auto low = static_cast<uint32_t>(set);
  const auto high = static_cast<uint32_t>(set >> 32);
  return {{{low, low, 0}, {high, high, 0}}};
}

/// Only what a signal handler may do: two system calls.
bool drop_in_this_thread(Capabilities kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  auto halves = halves_of(kept);
  return ::syscall(SYS_capset, &header, halves.data()) == 0 &&
         ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

void on_signal(int) {
  const int saved_errno = errno;
  drop_in_this_thread(g_kept.load(std::memory_order_relaxed));
  errno = saved_errno;
}

/// The permitted capabilities of a thread of this process; none for one that has ended.
Result<Capabilities> permitted_of(const std::string& task) {
  const std::string path = kTasks + ("/" + task) + "/status";
  const std::unique_ptr<FILE, int (*)(FILE*)> status(::fopen(path.c_str(), "re"), ::fclose);
  char line[256];
  Capabilities permitted = 0;
  errno = status == nullptr ? errno : 0;
  while (status != nullptr && std::fgets(line, sizeof line, status.get()) != nullptr) {
    if (std::sscanf(line, "CapPrm: %" SCNx64, &permitted) == 1) return permitted;
  }
  if (errno == ENOENT || errno == ESRCH) return Capabilities{0};
  if (errno == 0) errno = EPROTO;
  return errno_error(path);
}

/// Threads of this process with a permitted capability that is not in `kept`.
Result<std::vector<pid_t>> threads_with_more_than(Capabilities kept) {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir(kTasks), ::closedir);
  if (tasks == nullptr) return errno_error(kTasks);
  while (const dirent* task = ::readdir(tasks.get())) {
    if (task->d_name[0] == '.') continue;
    const auto permitted = permitted_of(task->d_name);
    if (!permitted.ok()) return permitted.error();
    if ((permitted.value() & ~kept) != 0) found.push_back(std::atoi(task->d_name));
  }
  return found;
}

Status drop_in_all_threads(Capabilities kept) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    auto threads = threads_with_more_than(kept);
    if (!threads.ok()) return threads.error();
    if (threads->empty()) return Ok{};
    if (std::chrono::steady_clock::now() > end) {
      return Error{ETIMEDOUT,
                   "thread " + std::to_string(threads->front()) + " keeps its capabilities"};
    }
    for (const pid_t thread : *threads) ::syscall(SYS_tgkill, ::getpid(), thread, kSignal);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The thread's own capabilities stay. What is not inheritable is not ambient either.
void set_inheritable(Capabilities inheritable) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> halves{};
  if (::syscall(SYS_capget, &header, halves.data()) != 0) return;
  halves[0].inheritable = static_cast<uint32_t>(inheritable);
  halves[1].inheritable = static_cast<uint32_t>(inheritable >> 32);
  ::syscall(SYS_capset, &header, halves.data());
}

}  // namespace

Capabilities effective_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> halves{};
  if (::syscall(SYS_capget, &header, halves.data()) != 0) return 0;
  return Capabilities{halves[1].effective} << 32 | halves[0].effective;
}

std::string names_of(Capabilities capabilities) {
  static const struct {
    unsigned number;
    const char* name;
  } kNames[] = {
      {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
      {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"},
      {CAP_NET_ADMIN, "CAP_NET_ADMIN"},
      {CAP_NET_RAW, "CAP_NET_RAW"},
      {CAP_IPC_LOCK, "CAP_IPC_LOCK"},
      {CAP_SYS_RAWIO, "CAP_SYS_RAWIO"},
      {CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
      {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
      {CAP_BPF, "CAP_BPF"},
      {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE"},
  };
  std::string out;
  for (; capabilities != 0; capabilities &= capabilities - 1) {
    const auto number = static_cast<unsigned>(std::countr_zero(capabilities));
    std::string name = std::to_string(number);
    for (const auto& known : kNames) {
      if (known.number == number) name = known.name;
    }
    out += (out.empty() ? "" : " ") + name;
  }
  return out;
}

Status drop_capabilities(Capabilities kept) {
  kept &= effective_capabilities();
  if (!drop_in_this_thread(kept)) return errno_error("capabilities cannot be dropped");
  g_kept.store(kept, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  // The handler stays: the last signals may still be on their way.
  if (::sigaction(kSignal, &action, nullptr) != 0) return errno_error("capabilities: no signal");
  return drop_in_all_threads(kept);
}

/// What the system refuses, the new program misses, and says so, or the caller asks are_all()
/// first.
InheritedCapabilities::InheritedCapabilities() {
  const Capabilities own = effective_capabilities();
  set_inheritable(own);
  for (unsigned number = 0; number < 64; ++number) {
    if ((own & capability(number)) == 0) continue;
    are_all_ &= ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0) == 0;
  }
}

InheritedCapabilities::~InheritedCapabilities() { set_inheritable(0); }

}  // namespace lyre
