#include "daemon/workers/worker_threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <future>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/workers/busy_core.h"
#include "daemon/workers/crowded_host.h"
#include "daemon/workers/queue_waits.h"
#include "daemon/workers/standstills.h"
#include "machine/files.h"
#include "machine/processors.h"
#include "stack/base/time_slice.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"

namespace lyre {
namespace {

/// Measured: with 0.5 ms the first messages of a step take as long, with 2.5 ms longer.
constexpr Nanos kWarmInterval = millis(1);
constexpr int kParkTriesMax = 1000;
constexpr useconds_t kParkTryUs = 50;

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

timespec timespec_of(Nanos span) {
  return {.tv_sec = span.value / 1'000'000'000, .tv_nsec = span.value % 1'000'000'000};
}

/// The thread runs on these cores only. Returns an error's number.
int run_on(pthread_t thread, std::span<const uint32_t> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const uint32_t core : cores) CPU_SET(core, &set);
  return ::pthread_setaffinity_np(thread, sizeof set, &set);
}

/// Where the thread may run, ascending. Empty: not known.
std::vector<uint32_t> cores_of(pthread_t thread) {
  std::vector<uint32_t> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::pthread_getaffinity_np(thread, sizeof set, &set) != 0) return cores;
  for (uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

uint32_t online_processors() {
  return static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The scheduler places no other thread there by itself.
bool is_isolated(uint32_t core) {
  const std::vector<uint32_t> isolated = machine::isolated_processors(machine::Roots{});
  return std::find(isolated.begin(), isolated.end(), core) != isolated.end();
}

}  // namespace

class WorkerThreads::Thread {
 public:
  Thread(const WorkerSeat& seat, const ThreadOptions& options, channel::WorkerDoorbell& doorbell)
      : seat_(seat),
        options_(options),
        doorbell_(doorbell),
        idle_(options.idle, options.spin, options.awake),
        crowd_("/proc/loadavg", online_processors()),
        shares_core_(options.idle == IdleMode::kAdaptive && !is_isolated(seat.core)),
        may_leave_(shares_core_ && !seat.other_cores.empty()),
        queues_(seat.queues),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  Status open() {
    if (!epoll_.is_open() || !bell_.is_open()) return failure("no descriptor", errno);
    // A kernel before 5.11 does not have the call, and a filter of system calls may refuse it.
    if (options_.idle == IdleMode::kAdaptive && !can_wait()) {
      return failure("a worker cannot sleep: epoll_pwait2()", errno);
    }
    // Edge-triggered: a doorbell need not be read, and one whose counter a client filled reports
    // nothing.
    if (Status status = add(bell_.get(), EPOLLIN | EPOLLET); !status.ok()) return status;
    return watch_queues();
  }

  bool can_wait() const {
    constexpr timespec kAtOnce{};
    epoll_event event;
    return ::epoll_pwait2(epoll_.get(), &event, 1, &kAtOnce, nullptr) >= 0;
  }

  /// A descriptor that was closed is not watched any more. Fails when one cannot be watched; the
  /// worker then sleeps for short times.
  Status watch_queues() {
    Status all = Ok{};
    for (uint32_t i = 0; i < seat_.queues.size(); ++i) {
      const int fd = seat_.queues[i]->wait_fd();
      if (fd < 0) continue;
      Status status = add(fd, EPOLLIN, i);
      const bool is_watched = status.ok() || status.error().code == EEXIST;
      queues_.set_watched(i, is_watched);
      if (!is_watched) all = std::move(status);
    }
    return all;
  }

  Status add(int fd, uint32_t events, uint32_t queue = kNoQueue) {
    epoll_event event{};
    event.events = events;
    event.data.u32 = queue;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return failure("a worker cannot wait for a descriptor", errno);
    }
    return Ok{};
  }
  void remove(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  Status start() {
    std::promise<Status> started;
    auto answer = started.get_future();
    try {
      thread_ = std::thread([this, &started] { main(started); });
    } catch (const std::system_error& error) {
      return failure("no thread for a worker", error.code().value());
    }
    return answer.get();
  }

  void stop() {
    must_stop_.store(true, std::memory_order_relaxed);
    if (!thread_.joinable()) return;
    unpark();
    ::eventfd_write(bell_.get(), 1);
    thread_.join();
  }

  /// A thread that is parked stays so. Relaxed: nothing else is published with the flag.
  void ask_to_park() {
    auto open = Gate::kOpen;
    gate_.compare_exchange_strong(open, Gate::kClosing, std::memory_order_relaxed);
    ::eventfd_write(bell_.get(), 1);
  }
  /// Acquire: pairs with the release in park(), so that what the thread did is seen.
  bool is_parked() const { return gate_.load(std::memory_order_acquire) == Gate::kParked; }
  void unpark() {
    gate_.store(Gate::kOpen, std::memory_order_release);  // pairs with the acquire in park()
    gate_.notify_one();
  }

  bool try_post(const worker::Command& command) {
    if (!seat_.worker->inbox().try_post(command)) return false;
    if (channel::must_ring(doorbell_.worker_sleeps)) ::eventfd_write(bell_.get(), 1);
    return true;
  }
  bool try_take(worker::Reply& out) { return seat_.worker->outbox().try_take(out); }

  worker::Doorbell bell() const { return {&doorbell_.worker_sleeps, bell_.get()}; }
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

  KeptCore kept_core() {
    return {.core = seat_.core,
            .is_away = [this] { return is_away_.load(std::memory_order_relaxed); },
            .allowed = [this] { return allowed_cores(); },
            .pin = [this] { return run_on(thread_.native_handle(), own_core()); },
            .is_core_lost = &seat_.stats->is_core_lost};
  }

 private:
  static constexpr uint32_t kNoQueue = UINT32_MAX;  ///< in an epoll event: it is a doorbell

  enum class Gate : uint32_t { kOpen, kClosing, kParked };

  std::span<const uint32_t> own_core() const { return {&seat_.core, 1}; }
  /// None while there is no thread, so that it is not pinned either.
  std::vector<uint32_t> allowed_cores() {
    return thread_.joinable() ? cores_of(thread_.native_handle()) : std::vector<uint32_t>();
  }

  void main(std::promise<Status>& started) {
    Status ready = settle();
    const bool may_run = ready.ok();
    started.set_value(std::move(ready));  // `started` is gone from here on
    if (!may_run) return;
    // Relaxed: nothing else is published with the flag; join() orders the rest.
    turned_at_ = monotonic_now();
    while (!must_stop_.load(std::memory_order_relaxed)) turn();
    options_.on_end();
  }

  /// Pins the thread to its core. Lowers its timer slack, so that short sleeps are short, and its
  /// time slices, so that it preempts who computes on its core when it wakes up.
  Status settle() {
    const std::string core = std::to_string(seat_.core);
    ::pthread_setname_np(::pthread_self(), ("lyre-core" + core).c_str());
    if (const int code = run_on(::pthread_self(), own_core())) {
      return failure("core " + core + " cannot be used", code);
    }
    ::prctl(PR_SET_TIMERSLACK, kTimerSlack.value, 0, 0, 0);
    ask_for_short_time_slices();
    return options_.on_start();
  }

  void park() {
    auto closing = Gate::kClosing;
    // Release: pairs with is_parked(). The control thread may have opened the gate again meanwhile.
    if (!gate_.compare_exchange_strong(closing, Gate::kParked, std::memory_order_release,
                                       std::memory_order_relaxed)) {
      return;
    }
    gate_.wait(Gate::kParked, std::memory_order_acquire);  // pairs with the release in unpark()
  }

  void turn() {
    // Acquire: pairs with the release in unpark(), which stop() calls after it has set must_stop_.
    // A thread that was held until its end makes no turn.
    if (gate_.load(std::memory_order_acquire) != Gate::kOpen) park();
    if (must_stop_.load(std::memory_order_relaxed)) return;
    const Nanos now = monotonic_now();
    note_standstill(now - std::exchange(turned_at_, now));
    const size_t work = seat_.worker->poll_once(now);
    // What a later turn finds was found by polling.
    const io::Woken woken = std::exchange(woken_, io::Woken::kByOthers);
    if (work > 0) queues_.disarm(woken);
    note_submissions(now);
    // Relaxed: a counter with one writer.
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const Nanos deadline = work > 0 ? now : seat_.worker->next_deadline();
    if (work == 0 && shares_core_ && crowd_.is_due(now)) {
      idle_.on_look(crowd_.look(now));
      // Relaxed: a lone hint, see WorkerLink::is_crowded().
      doorbell_.is_crowded.store(idle_.is_bulk_on_crowded_host(), std::memory_order_relaxed);
    }
    const IdlePolicy::Decision decision = idle_.after_turn(work, now, deadline);
    if (may_leave_) {
      change_core(busy_core_.after_turn(idle_.is_contended(now), idle_.has_given_freely(), now),
                  now);
    }
    if (decision.is_step_due) keep_path_warm(now);
    if (decision.action == IdlePolicy::Action::kYield) ::sched_yield();
    if (decision.action == IdlePolicy::Action::kSleep) sleep(decision);
  }

  /// The kernel chooses among the other cores. Where it refuses all of them, nothing changes. It
  /// refuses the own one when the cpuset has lost it: CoreKeeper looks after the worker then.
  void change_core(BusyCore::Action action, Nanos now) {
    if (action == BusyCore::Action::kStay) return;
    const bool leaves = action == BusyCore::Action::kLeave;
    // Relaxed: a lone hint, see CoreKeeper::look_at(). True before the worker leaves, and until it
    // has returned.
    if (leaves) is_away_.store(true, std::memory_order_relaxed);
    const auto cores = leaves ? std::span<const uint32_t>(seat_.other_cores) : own_core();
    const bool is_done = run_on(::pthread_self(), cores) == 0;
    if (!leaves || !is_done) is_away_.store(false, std::memory_order_relaxed);
    if (!is_done) {
      if (!leaves) busy_core_.on_failed_return(now);
      return;
    }
    idle_.on_core_change();
    if (leaves) seat_.stats->core_departures.add(1);
  }

  void keep_path_warm(Nanos now) {
    if (now - warmed_at_ < kWarmInterval) return;
    warmed_at_ = now;
    seat_.worker->repeat_an_ack();
  }

  void note_submissions(Nanos now) {
    const uint64_t all = seat_.stats->submissions.get();
    const uint64_t taken = all - std::exchange(submissions_, all);
    if (taken > 0) idle_.on_submissions(taken, now);
  }

  /// A turn begins `passed` after the one before.
  void note_standstill(Nanos passed) {
    const std::optional<Standstills::Told> told = standstills_.on_turn(passed);
    if (told) seat_.worker->on_standstill(told->all, told->pause);
  }

  void sleep(const IdlePolicy::Decision& decision) {
    auto& sleeps = doorbell_.worker_sleeps;
    const auto has_work = [this] { return seat_.worker->has_waiting_work(); };
    if (!channel::announce_sleep(sleeps, has_work)) return;
    const io::Arming arming = queues_.arm();
    if (arming != io::Arming::kPackets) {
      seat_.stats->sleeps.add(1);
      const Nanos longest = arming == io::Arming::kArmed ? decision.sleep : decision.unsure_sleep;
      standstills_.on_sleep(longest);
      wait(longest);
    }
    // Relaxed: a doorbell between the wake-up and this store is only superfluous.
    sleeps.store(0, std::memory_order_relaxed);
  }

  void wait(Nanos longest) {
    const timespec limit = timespec_of(longest);
    epoll_event events[16];
    const int count = ::epoll_pwait2(epoll_.get(), events, std::size(events), &limit, nullptr);
    woken_ = count == 0 ? io::Woken::kByTimeout : io::Woken::kByOthers;
    for (int i = 0; i < count; ++i) {
      const uint32_t queue = events[i].data.u32;
      if (queue == kNoQueue) continue;
      if ((events[i].events & EPOLLERR) != 0) take_error(seat_.queues[queue]->wait_fd());
      queues_.on_event(queue);
    }
  }

  /// An error of a socket, as of an interface that is set down, is an event until it is read.
  static void take_error(int socket) {
    int error = 0;
    socklen_t bytes = sizeof error;
    static_cast<void>(::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes));
  }

  const WorkerSeat seat_;
  const ThreadOptions& options_;
  channel::WorkerDoorbell& doorbell_;
  IdlePolicy idle_;
  CrowdedHost crowd_;
  BusyCore busy_core_;
  const bool shares_core_;    ///< an adaptive worker's
  const bool may_leave_;      ///< the core, while another thread computes there
  uint64_t submissions_ = 0;  ///< until the last turn
  Nanos warmed_at_{0};        ///< the last call of keep_path_warm() that did something
  Nanos turned_at_{0};        ///< when the last turn began
  Standstills standstills_;
  QueueWaits queues_;
  io::Woken woken_ = io::Woken::kByOthers;  ///< from the last sleep
  OwnedFd epoll_;
  OwnedFd bell_;  ///< the control thread's; clients have doorbells of their own
  std::thread thread_;
  std::atomic<bool> must_stop_{false};
  std::atomic<Gate> gate_{Gate::kOpen};
  std::atomic<uint64_t> turns_{0};
  std::atomic<bool> is_away_{false};  ///< on `other_cores`, by its own decision
};

Result<std::unique_ptr<WorkerThreads>> WorkerThreads::create(std::span<const WorkerSeat> seats,
                                                             ThreadOptions options) {
  std::unique_ptr<WorkerThreads> threads(new WorkerThreads);
  threads->options_ = std::move(options);
  auto memory = SharedMemory::create(
      "lyre-doorbells", seats.size() * sizeof(channel::WorkerDoorbell), SharedWith::kReaders);
  if (!memory.ok()) return memory.error();
  threads->doorbells_ = std::move(*memory);
  auto reader = reopen_read_only(threads->doorbells_.fd());
  if (!reader.ok()) return reader.error();
  threads->doorbells_reader_ = std::move(*reader);
  auto* bells = reinterpret_cast<channel::WorkerDoorbell*>(threads->doorbells_.data());
  for (uint32_t i = 0; i < seats.size(); ++i) {
    new (bells + i) channel::WorkerDoorbell{};
    auto thread = std::make_unique<Thread>(seats[i], threads->options_, bells[i]);
    if (Status status = thread->open(); !status.ok()) return status.error();
    threads->threads_.push_back(std::move(thread));
  }
  return threads;
}

WorkerThreads::~WorkerThreads() { stop(); }

Status WorkerThreads::start() {
  // The control thread handles signals: threads inherit this mask. A fault belongs to the thread
  // that causes it, and a blocked one ends the process without its handler (see region_window.h).
  sigset_t all, before;
  ::sigfillset(&all);
  for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status = Ok{};
  for (auto& thread : threads_) {
    status = thread->start();
    if (!status.ok()) break;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) stop();
  return status;
}

bool WorkerThreads::pause() {
  for (auto& thread : threads_) thread->ask_to_park();
  const auto all_parked = [this] {
    return std::all_of(threads_.begin(), threads_.end(),
                       [](const auto& thread) { return thread->is_parked(); });
  };
  for (int i = 0; i < kParkTriesMax; ++i) {
    if (all_parked()) return true;
    ::usleep(kParkTryUs);
  }
  resume();
  return false;
}

void WorkerThreads::watch_queues() {
  for (auto& thread : threads_) static_cast<void>(thread->watch_queues());
}

void WorkerThreads::resume() {
  for (auto& thread : threads_) thread->unpark();
}

void WorkerThreads::hold() {
  for (auto& thread : threads_) thread->ask_to_park();
}

void WorkerThreads::call_clients(bool are_called) {
  auto* bells = reinterpret_cast<channel::WorkerDoorbell*>(doorbells_.data());
  for (size_t i = 0; i < threads_.size(); ++i) {
    bells[i].worker_sleeps.store(are_called ? 1 : 0, std::memory_order_relaxed);
  }
  // Full fence: pairs with the one in must_ring(), as in announce_sleep(). The next look at a ring
  // sees an entry whose client read the flag before.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void WorkerThreads::stop() {
  for (auto& thread : threads_) thread->stop();
}

bool WorkerThreads::try_post(uint32_t worker, const worker::Command& command) {
  return threads_[worker]->try_post(command);
}

bool WorkerThreads::try_take(uint32_t worker, worker::Reply& out) {
  return threads_[worker]->try_take(out);
}

Status WorkerThreads::watch(uint32_t worker, int ring_fd) {
  return threads_[worker]->add(ring_fd, EPOLLIN | EPOLLET);
}

void WorkerThreads::unwatch(uint32_t worker, int ring_fd) { threads_[worker]->remove(ring_fd); }

worker::Doorbell WorkerThreads::bell(uint32_t worker) const { return threads_[worker]->bell(); }

uint64_t WorkerThreads::turns(uint32_t worker) const { return threads_[worker]->turns(); }

std::vector<KeptCore> WorkerThreads::kept_cores() {
  std::vector<KeptCore> cores;
  for (auto& thread : threads_) cores.push_back(thread->kept_core());
  return cores;
}

}  // namespace lyre
