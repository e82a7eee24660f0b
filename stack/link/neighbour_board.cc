#include "stack/link/neighbour_board.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "stack/base/check.h"

namespace lyre::link {
namespace {

constexpr uint32_t kPlaces = 4096;  ///< a power of two
constexpr int64_t kQuestionEveryNs = seconds(1).value / kSolicitsPerSecondMax;
constexpr int64_t kKeptNs = kQuestionEveryNs * kSolicitsKeptForUrgent;

uint32_t millis_of(Nanos at) { return static_cast<uint32_t>(at.value / millis(1).value); }

}  // namespace

/// A worker alone asks nobody, so all its neighbours share one place.
NeighbourBoard::NeighbourBoard(SipKey key, uint32_t worker_count)
    : key_(key), worker_count_(worker_count), places_(worker_count > 1 ? kPlaces : 1) {
  LYRE_CHECK(worker_count <= 64);  // at start only: the configuration was checked
  for (auto& until : questions_until_ns_) until = std::numeric_limits<int64_t>::min() / 2;
}

NeighbourBoard::Place NeighbourBoard::place_of(uint8_t port, const IpAddress& ip) const {
  if (places_.size() == 1) return {};
  uint8_t bytes[sizeof ip.bytes + 1];
  std::memcpy(bytes, ip.bytes.data(), sizeof ip.bytes);
  bytes[sizeof ip.bytes] = port;
  const uint64_t hash = SipHash(key_)(bytes);
  return {static_cast<uint32_t>(hash & (places_.size() - 1)), static_cast<uint32_t>(hash >> 40)};
}

uint64_t NeighbourBoard::waiters(const Place& place) const {
  // Full fence: pairs with the one in channel::announce_sleep().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return places_[place.index].waiters.load(std::memory_order_seq_cst);
}

std::optional<Nanos> NeighbourBoard::asked_elsewhere(const Place& place, uint32_t worker, Nanos now,
                                                     Nanos span) const {
  const uint64_t question = places_[place.index].question.load(std::memory_order_seq_cst);
  const auto asker = static_cast<uint32_t>(question >> 32 & 0xff);
  if (asker == 0 || asker == worker + 1 || question >> 40 != place.mark) return std::nullopt;
  // Negative: the other worker's turn began later.
  const auto age = millis(static_cast<int32_t>(millis_of(now) - static_cast<uint32_t>(question)));
  if (age >= span || age <= Nanos{0} - span) return std::nullopt;
  return now + span - age;
}

void NeighbourBoard::note_question(const Place& place, uint32_t worker, Nanos now) {
  const uint64_t question =
      uint64_t{place.mark} << 40 | uint64_t{worker + 1} << 32 | millis_of(now);
  places_[place.index].question.store(question, std::memory_order_seq_cst);
}

void NeighbourBoard::forget_question(const Place& place) {
  std::atomic<uint64_t>& question = places_[place.index].question;
  uint64_t asked = question.load(std::memory_order_seq_cst);
  if (asked == 0 || asked >> 40 != place.mark) return;
  question.compare_exchange_strong(asked, 0, std::memory_order_seq_cst);
}

/// A token bucket in one word: the time at which the questions that were taken are earned.
bool NeighbourBoard::take_question(uint8_t port, Nanos now, bool is_urgent) {
  std::atomic<int64_t>& until_ns = questions_until_ns_[port];
  const int64_t last_at = now.value - (is_urgent ? 0 : kKeptNs);
  const int64_t full_at = now.value - kKeptNs - kQuestionEveryNs * kSolicitsAtOnceMax;
  int64_t before = until_ns.load(std::memory_order_relaxed);
  for (;;) {
    const int64_t after = std::max(before, full_at) + kQuestionEveryNs;
    if (after > last_at) return false;
    if (until_ns.compare_exchange_weak(before, after, std::memory_order_relaxed)) return true;
  }
}

Nanos NeighbourBoard::question_ready_at(uint8_t port) const {
  return nanos(questions_until_ns_[port].load(std::memory_order_relaxed) +
               kQuestionEveryNs * worker_count_);
}

AddressState NeighbourBoard::decide(size_t own, AddressState found) {
  AddressState before = AddressState::kTentative;
  return own_[own].compare_exchange_strong(before, found) ? found : before;
}

}  // namespace lyre::link
