#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

/// What happened to a session, as `lyre trace` shows it: the last events of each, in the stats
/// segment.
namespace lyre::channel {

/// Every kind of event: its key in JSON, the keys of its two numbers ("" for none; the last word is
/// the unit), and its text. An mss_bytes of 0 is not known: the peer has not answered, or it is
/// said with another state.
#define LYRE_TRACE_KINDS(X)                                                                        \
  X(kOpened, "opened", "is_passive", "mss_bytes", "opened")                                        \
  X(kTimeout, "timeout", "rto_us", "timeouts", "retransmission timeout")                           \
  X(kFastRecovery, "fast_recovery", "cwnd_bytes", "ssthresh_bytes", "loss found: fast recovery")   \
  X(kEcnReduction, "ecn_reduction", "cwnd_bytes", "ssthresh_bytes", "congestion marks: reduction") \
  X(kUndone, "undone", "cwnd_bytes", "ssthresh_bytes", "reduction was spurious: undone")           \
  X(kRecovered, "recovered", "cwnd_bytes", "ssthresh_bytes", "recovered")                          \
  X(kTailProbe, "tail_probe", "in_flight_bytes", "srtt_us", "tail loss probe")                     \
  X(kRetransmitted, "retransmitted", "total_bytes", "in_flight_bytes", "retransmitted")            \
  X(kPathMtu, "path_mtu", "mss_bytes", "cwnd_bytes", "segment size changed")                       \
  X(kSendWindowClosed, "send_window_closed", "queue_bytes", "window_bytes", "peer has no room")    \
  X(kWindowProbe, "window_probe", "queue_bytes", "window_bytes", "window probe")                   \
  X(kSendWindowOpen, "send_window_open", "queue_bytes", "window_bytes", "peer has room again")     \
  X(kReceiveWindowClosed, "receive_window_closed", "held_bytes", "", "no room for the peer")       \
  X(kReceiveWindowOpen, "receive_window_open", "held_bytes", "window_bytes", "room for the peer")  \
  X(kKeepaliveProbe, "keepalive_probe", "", "", "keep-alive probe")                                \
  X(kResetSent, "reset_sent", "", "", "RST sent")                                                  \
  X(kState, "state", "state", "mss_bytes", "state")                                                \
  X(kDropped, "dropped", "reason", "count", "segment not used")                                    \
  X(kEnded, "ended", "status", "", "ended")

enum class TraceKind : uint8_t {
#define LYRE_X(name, key, first, second, text) name,
  LYRE_TRACE_KINDS(LYRE_X)
#undef LYRE_X
      kCount
};

struct TraceEvent {
  int64_t unix_us = 0;
  TraceKind kind{};
  uint32_t first = 0;
  uint32_t second = 0;
};

/// A size as a number of an event, where UINT32_MAX says that there is none.
constexpr uint32_t event_bytes(uint64_t bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX - 1));
}

/// The last events of one session. One thread writes, any process reads.
class TraceRing {
 public:
  /// One fewer than slots: the writer may be at work in the slot of the oldest event.
  static constexpr uint32_t kEvents = 125;

  /// Forgets the session before. `opened_unix_ns` is as in its SessionView, and not 0.
  void begin(int64_t opened_unix_ns) {
    opened_unix_ns_.store(0, std::memory_order_relaxed);
    count_.store(0, std::memory_order_relaxed);
    opened_unix_ns_.store(opened_unix_ns, std::memory_order_release);  // pairs with read()
  }
  void push(const TraceEvent& event) {
    const uint64_t count = count_.load(std::memory_order_relaxed);
    // Release fence: pairs with the acquire fence in read(). A reader that sees a new event in a
    // slot also sees the count and the session before it.
    std::atomic_thread_fence(std::memory_order_release);
    write(slots_[count % kSlots], event);
    count_.store(count + 1, std::memory_order_release);  // pairs with the first load in read()
  }
  /// Like push(); but when the last event is of the same kind with the same first number, that one
  /// gets the time and the sum of the second numbers, at most UINT32_MAX.
  void push_or_add(TraceEvent event) {
    const uint64_t count = count_.load(std::memory_order_relaxed);
    if (count == 0) return push(event);
    Slot& last = slots_[(count - 1) % kSlots];
    const TraceEvent before = value_of(last);
    if (before.kind != event.kind || before.first != event.first) return push(event);
    event.second += std::min(before.second, UINT32_MAX - event.second);
    write(last, event);
  }
  /// Copies the events of the session that was opened then, the oldest first. Returns how many; 0
  /// when the ring has another session's, or changed too often.
  uint32_t read(int64_t opened_unix_ns, std::span<TraceEvent, kEvents> out) const {
    for (int attempt = 0; attempt < 64; ++attempt) {
      // acquire: pairs with the last store of begin()
      if (opened_unix_ns_.load(std::memory_order_acquire) != opened_unix_ns) return 0;
      const uint64_t end =
          count_.load(std::memory_order_acquire);  // pairs with push()'s last store
      const uint64_t begin = end > kEvents ? end - kEvents : 0;
      for (uint64_t i = begin; i < end; ++i) out[i - begin] = value_of(slots_[i % kSlots]);
      std::atomic_thread_fence(std::memory_order_acquire);  // pairs with push()'s fence
      const bool is_same = count_.load(std::memory_order_relaxed) == end &&
                           opened_unix_ns_.load(std::memory_order_relaxed) == opened_unix_ns;
      if (is_same) return static_cast<uint32_t>(end - begin);
    }
    return 0;
  }

 private:
  static constexpr uint32_t kSlots = kEvents + 1;
  struct Slot {
    std::atomic<uint64_t> when_and_kind;
    std::atomic<uint64_t> numbers;
  };

  // Relaxed: fences and the count order them.
  static void write(Slot& slot, const TraceEvent& event) {
    slot.when_and_kind.store(
        static_cast<uint64_t>(event.unix_us) << 8 | static_cast<uint64_t>(event.kind),
        std::memory_order_relaxed);
    slot.numbers.store(uint64_t{event.first} << 32 | event.second, std::memory_order_relaxed);
  }
  static TraceEvent value_of(const Slot& slot) {
    const uint64_t when = slot.when_and_kind.load(std::memory_order_relaxed);
    const uint64_t numbers = slot.numbers.load(std::memory_order_relaxed);
    return {.unix_us = static_cast<int64_t>(when >> 8),
            .kind = static_cast<TraceKind>(when & 0xff),
            .first = static_cast<uint32_t>(numbers >> 32),
            .second = static_cast<uint32_t>(numbers)};
  }

  std::atomic<int64_t> opened_unix_ns_;
  std::atomic<uint64_t> count_;
  [[maybe_unused]] uint64_t reserved_[2];
  Slot slots_[kSlots];
};
static_assert(sizeof(TraceRing) == 2048);

}  // namespace lyre::channel
