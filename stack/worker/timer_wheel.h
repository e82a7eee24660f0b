#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "stack/base/check.h"
#include "stack/base/nanos.h"

namespace lyre::worker {

/// Hierarchical timer wheel over connection indices: one entry for each connection, O(1) to arm and
/// to stop. Units: ticks of 2^16 ns (65.5 us); four levels of 256 slots reach 78 hours; a later
/// deadline is cut to that. An entry fires at the first advance() at or after its deadline, never
/// before. Thread: the worker. Memory is taken at construction and untouched until used.
class TimerWheel {
 public:
  explicit TimerWheel(uint32_t entries_max)
      : links_(static_cast<Link*>(std::calloc(entries_max, sizeof(Link)))) {
    LYRE_CHECK(links_ != nullptr);  // at the start: the count is configured
    for (auto& level : heads_) level.fill(kNone);
  }

  /// Arms the entry of `index`, or moves it to an earlier time. An entry is not moved to a later
  /// time: it fires early, and its owner, which knows the true deadline, arms it again. Most ACKs
  /// only postpone a timeout, so they change nothing here.
  void arm(uint32_t index, Nanos deadline) {
    const int64_t tick = (deadline.value + kTickNanos - 1) >> kTickShift;
    Link& link = links_[index];
    if (link.is_armed) {
      if (link.tick <= tick) return;
      unlink(index);
    }
    link.tick = tick;
    place(index);
  }
  void stop(uint32_t index) {
    if (links_[index].is_armed) unlink(index);
  }

  /// True when the entry of `index` fires by the time of `deadline`.
  bool covers(uint32_t index, Nanos deadline) const {
    const int64_t tick = (deadline.value + kTickNanos - 1) >> kTickShift;
    return links_[index].is_armed && links_[index].tick <= std::max(tick, now_tick_);
  }

  /// Calls fire(index) for entries that are due, at most `limit`; returns how many.
  template <typename Fire>
  size_t advance(Nanos now, size_t limit, Fire fire) {
    const int64_t target = now.value >> kTickShift;
    size_t fired = 0;
    if (armed_count_ == 0) {
      now_tick_ = target > now_tick_ ? target : now_tick_;
      return 0;
    }
    while (true) {
      uint32_t& head = heads_[0][now_tick_ & kSlotMask];
      while (head != kNone) {
        if (fired == limit) return fired;
        const uint32_t index = head;
        unlink(index);
        fire(index);
        ++fired;
      }
      if (now_tick_ >= target) return fired;
      now_tick_ = next_stop(target);
      cascade();
    }
  }

  /// No entry fires before this; kNever when none is armed.
  Nanos next_deadline() const {
    if (armed_count_ == 0) return kNever;
    if (heads_[0][now_tick_ & kSlotMask] != kNone) return Nanos{now_tick_ << kTickShift};
    const int64_t tick = next_stop(INT64_MAX >> kTickShift);
    return Nanos{tick << kTickShift};
  }

 private:
  static constexpr int kTickShift = 16;
  static constexpr int64_t kTickNanos = int64_t{1} << kTickShift;
  static constexpr int kLevels = 4;
  static constexpr int kSlotBits = 8;
  static constexpr int64_t kSlotMask = (1 << kSlotBits) - 1;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Link {
    int64_t tick;
    uint32_t next;
    uint32_t previous;
    uint16_t slot;
    uint8_t level;
    bool is_armed;
  };

  void place(uint32_t index) {
    Link& link = links_[index];
    if (link.tick < now_tick_) link.tick = now_tick_;
    int level = 0;
    while (level < kLevels - 1 &&
           (link.tick >> (kSlotBits * level)) - (now_tick_ >> (kSlotBits * level)) > kSlotMask) {
      ++level;
    }
    int64_t slot_time = link.tick >> (kSlotBits * level);
    const int64_t reach = (now_tick_ >> (kSlotBits * level)) + kSlotMask;
    if (slot_time > reach) slot_time = reach;
    link.level = static_cast<uint8_t>(level);
    link.slot = static_cast<uint16_t>(slot_time & kSlotMask);
    uint32_t& head = heads_[level][link.slot];
    link.next = head;
    link.previous = kNone;
    if (head != kNone) links_[head].previous = index;
    head = index;
    link.is_armed = true;
    used_[level][link.slot / 64] |= uint64_t{1} << (link.slot % 64);
    ++armed_count_;
  }
  void unlink(uint32_t index) {
    Link& link = links_[index];
    if (link.previous != kNone)
      links_[link.previous].next = link.next;
    else
      heads_[link.level][link.slot] = link.next;
    if (link.next != kNone) links_[link.next].previous = link.previous;
    if (heads_[link.level][link.slot] == kNone) {
      used_[link.level][link.slot / 64] &= ~(uint64_t{1} << (link.slot % 64));
    }
    link.is_armed = false;
    --armed_count_;
  }
  /// The next tick, at most `limit`, at which a slot is due or its entries move to the level below.
  int64_t next_stop(int64_t limit) const {
    int64_t stop = limit;
    for (int level = 0; level < kLevels; ++level) {
      const int64_t base = now_tick_ >> (kSlotBits * level);
      const int64_t distance = first_used_after(level, base & kSlotMask);
      if (distance < 0) continue;
      const int64_t tick = (base + distance) << (kSlotBits * level);
      if (tick < stop) stop = tick;
    }
    return stop;
  }
  /// Slots from `slot` to the next used one after it, or -1.
  int64_t first_used_after(int level, int64_t slot) const {
    for (int64_t distance = 1; distance <= kSlotMask;) {
      const int64_t at = (slot + distance) & kSlotMask;
      const uint64_t word = used_[level][at / 64] >> (at % 64);
      if (word != 0) {
        const int64_t found = distance + std::countr_zero(word);
        return found <= kSlotMask ? found : -1;
      }
      distance += 64 - at % 64;
    }
    return -1;
  }
  /// At the start of a slot of a higher level, its entries move to the level below.
  void cascade() {
    for (int level = kLevels - 1; level > 0; --level) {
      if ((now_tick_ & ((int64_t{1} << (kSlotBits * level)) - 1)) != 0) continue;
      uint32_t index = heads_[level][(now_tick_ >> (kSlotBits * level)) & kSlotMask];
      while (index != kNone) {
        const uint32_t next = links_[index].next;
        unlink(index);
        place(index);
        index = next;
      }
    }
  }

  struct FreeLinks {
    void operator()(Link* links) const { std::free(links); }
  };
  std::unique_ptr<Link[], FreeLinks> links_;
  std::array<std::array<uint32_t, 256>, kLevels> heads_{};
  std::array<std::array<uint64_t, 4>, kLevels> used_{};
  int64_t now_tick_ = 0;
  uint32_t armed_count_ = 0;
};

}  // namespace lyre::worker
