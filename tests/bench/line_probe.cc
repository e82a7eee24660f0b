/// How long a cache line takes from one core to another, while others use both:
///
///   line_probe CORE CORE   looks until it is ended, and prints JSON
///
/// The host of a virtual machine moves its processors between cores that share a cache and cores
/// that do not, within seconds. What two threads do with each other takes several times as long
/// then.

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/bench/probe.h"

namespace lyre {
namespace {

constexpr unsigned kSecondsMax = 300;
/// Both threads wake up at each multiple of it.
constexpr int64_t kIntervalNs = 25'000'000;
/// One thread waits so long for the other: an interrupt may have delayed it.
constexpr int64_t kPatienceNs = 300'000;
constexpr int64_t kRoundTrips = 50;

/// Shared by the two threads, each on a line of its own.
struct Table {
  /// The number of the look that this thread began.
  alignas(128) std::atomic<int64_t> looks[2][16] = {};
  alignas(128) std::atomic<int64_t> number{0};
  alignas(128) std::atomic<bool> must_stop{false};
};

class End {
 public:
  End(Table& table, int side, int core) : table_(table), side_(side), core_(core) {}

  void run() {
    take_core(core_);
    // Of a real-time class, so that both run at the same time where others compute.
    const sched_param priority{.sched_priority = 1};
    if (const int code = ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &priority)) {
      fail(std::string("no real-time class: ") + std::strerror(code));
    }
    while (!table_.must_stop.load(std::memory_order_relaxed)) {
      const int64_t look = now_ns() / kIntervalNs + 1;
      sleep_until(look * kIntervalNs);
      if (meet(look)) exchange(look);
    }
  }

  const std::vector<int64_t>& one_way_ns() const { return one_way_ns_; }

 private:
  static void sleep_until(int64_t at_ns) {
    const timespec at{.tv_sec = at_ns / 1'000'000'000, .tv_nsec = at_ns % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
  }

  // Sequentially consistent, as the exchange is: the values are all that is passed.
  bool meet(int64_t look) {
    table_.looks[side_][0].store(look);
    const int64_t until_ns = now_ns() + kPatienceNs;
    while (table_.looks[1 - side_][0].load() != look) {
      if (now_ns() > until_ns) return false;
    }
    return true;
  }

  /// Side 0 writes the odd numbers, side 1 answers each with the next one.
  void exchange(int64_t look) {
    const int64_t first = look * 4 * kRoundTrips;
    const int64_t begin_ns = now_ns();
    for (int64_t i = 0; i < kRoundTrips; ++i) {
      const int64_t sent = first + 2 * i + 1;
      if (side_ == 0) table_.number.store(sent);
      if (!wait_for(side_ == 0 ? sent + 1 : sent, begin_ns + kPatienceNs)) return;
      if (side_ == 1) table_.number.store(sent + 1);
    }
    if (side_ == 0) one_way_ns_.push_back((now_ns() - begin_ns) / (2 * kRoundTrips));
  }

  bool wait_for(int64_t value, int64_t until_ns) {
    constexpr int kLooksPerClockRead = 64;
    for (int looks = 0; table_.number.load() != value; ++looks) {
      if (looks % kLooksPerClockRead == kLooksPerClockRead - 1 && now_ns() > until_ns) return false;
    }
    return true;
  }

  Table& table_;
  const int side_;
  const int core_;
  std::vector<int64_t> one_way_ns_;
};

void print(std::vector<int64_t> values) {
  if (values.empty()) fail("the two threads never ran at the same time");
  std::sort(values.begin(), values.end());
  std::printf("{\"looks\": %zu, \"line_ns\": %lld}\n", values.size(),
              static_cast<long long>(values[values.size() / 2]));
}

}  // namespace
}  // namespace lyre

int main(int argc, char** argv) {
  if (argc != 3) lyre::fail("usage: line_probe CORE CORE");
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT, SIGALRM}) ::sigaddset(&ends, number);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // inherited by both threads
  ::alarm(lyre::kSecondsMax);
  lyre::Table table;
  lyre::End first(table, 0, std::atoi(argv[1])), second(table, 1, std::atoi(argv[2]));
  std::thread threads[] = {std::thread([&] { first.run(); }), std::thread([&] { second.run(); })};
  int number = 0;
  ::sigwait(&ends, &number);
  table.must_stop.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  lyre::print(first.one_way_ns());
  return 0;
}
