#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stack/base/interface_address.h"
#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/siphash.h"

namespace lyre::link {

/// Ports that one worker can have.
inline constexpr uint8_t kPortsMax = 8;

/// Solicitations that all workers together send through one port: on average, and at once. Clouds
/// drop the packets of an interface that asks more often; a subnet of a few hundred peers is
/// resolved at once.
inline constexpr uint32_t kSolicitsPerSecondMax = 1000;
inline constexpr uint32_t kSolicitsAtOnceMax = 512;
/// So many more at once, of the same rate, are for urgent questions only (NeighbourCache::urge()).
inline constexpr uint32_t kSolicitsKeptForUrgent = 64;

/// The worker that announces the addresses of all ports, probes for them and defends them.
inline constexpr uint32_t kSpeaker = 0;

/// RFC 4862 2: an address is tentative until duplicate address detection has found no other owner.
enum class AddressState : uint8_t { kTentative, kUsable, kDuplicate };

/// What the workers of a daemon need to know of each other's neighbours: which of them have an
/// entry for an address, which wait for its MAC, who has asked for it, how many questions a port
/// may still send, and what the speaker found out about own addresses. Addresses share places by
/// their hash: for two addresses in one place the answer may be too many workers, never too few.
/// Thread: any. Sets of workers have the bit 1 << index. Units: time is the caller's `now`.
class NeighbourBoard {
 public:
  /// `key` makes the places unpredictable for peers.
  NeighbourBoard(SipKey key, uint32_t worker_count);

  /// Where a neighbour on a port is noted.
  struct Place {
    uint32_t index = 0;
    uint32_t mark = 0;  ///< 24 more bits of the hash
  };
  Place place_of(uint8_t port, const IpAddress& ip) const;
  uint32_t worker_count() const { return worker_count_; }
  uint32_t place_count() const { return static_cast<uint32_t>(places_.size()); }

  void set_knows(uint32_t place, uint32_t worker, bool knows) {
    set(places_[place].knowers, worker, knows);
  }
  void set_waits(uint32_t place, uint32_t worker, bool waits) {
    set(places_[place].waiters, worker, waits);
  }
  /// The workers that may have an entry. Call after forget_question().
  uint64_t knowers(const Place& place) const {
    return places_[place.index].knowers.load(std::memory_order_seq_cst);
  }
  /// The workers that may wait for the MAC. Call after they were sent it: each of them is either
  /// seen here, or finds the message before it sleeps.
  uint64_t waiters(const Place& place) const;

  /// Another worker asked for the address less than `span` before `now`: the end of that span.
  std::optional<Nanos> asked_elsewhere(const Place& place, uint32_t worker, Nanos now,
                                       Nanos span) const;
  void note_question(const Place& place, uint32_t worker, Nanos now);
  /// The address has answered: who wants to know it from now on asks. Call before knowers(): a
  /// worker that adds an entry meanwhile is either seen there, or does not rely on the question.
  void forget_question(const Place& place);

  /// Takes one of the questions that `port` may send. One that is not urgent leaves
  /// kSolicitsKeptForUrgent of them.
  bool take_question(uint8_t port, Nanos now, bool is_urgent);
  /// When a worker tries again after take_question() failed. Not at the next question, for which
  /// all workers would wake.
  Nanos question_ready_at(uint8_t port) const;

  /// The state of own address number `own` (the same number at all workers), as far as it is found
  /// out.
  AddressState state_of(size_t own) const { return own_[own].load(std::memory_order_acquire); }
  /// Decides a tentative address. Returns the state that holds: another worker may have been first.
  AddressState decide(size_t own, AddressState found);
  /// The address is not used, whatever was decided.
  void overrule(size_t own) { own_[own].store(AddressState::kDuplicate); }

 private:
  struct Cell {
    std::atomic<uint64_t> knowers{0};
    std::atomic<uint64_t> waiters{0};
    std::atomic<uint64_t> question{0};  ///< of the last one: mark, worker + 1, milliseconds; or 0
  };
  // Sequentially consistent: pairs with forget_question() and knowers().
  static void set(std::atomic<uint64_t>& workers, uint32_t worker, bool is_in) {
    const uint64_t bit = uint64_t{1} << worker;
    if (is_in) {
      workers.fetch_or(bit, std::memory_order_seq_cst);
    } else {
      workers.fetch_and(~bit, std::memory_order_seq_cst);
    }
  }

  const SipKey key_;
  const uint32_t worker_count_;
  std::vector<Cell> places_;  ///< a power of two; never grows
  /// By port: take_question() succeeds from a question's interval after this on.
  std::array<std::atomic<int64_t>, kPortsMax> questions_until_ns_;
  std::array<std::atomic<AddressState>, size_t{kPortsMax} * kPortAddressesMax> own_{};
};

/// A worker's entries, counted by place, so that the board has its bit while there is one.
/// Owner: the board is borrowed. Thread: one.
class BoardSeat {
 public:
  BoardSeat(NeighbourBoard& board, uint32_t worker)
      : board_(board), worker_(worker), known_(board.place_count()), waiting_(known_.size()) {}

  NeighbourBoard& board() const { return board_; }
  uint32_t worker() const { return worker_; }

  void add(uint8_t port, const IpAddress& ip) {
    const uint32_t place = board_.place_of(port, ip).index;
    if (known_[place]++ == 0) board_.set_knows(place, worker_, true);
  }
  void remove(uint8_t port, const IpAddress& ip) {
    const uint32_t place = board_.place_of(port, ip).index;
    if (--known_[place] == 0) board_.set_knows(place, worker_, false);
  }
  void begin_wait(uint8_t port, const IpAddress& ip) {
    const uint32_t place = board_.place_of(port, ip).index;
    if (waiting_[place]++ == 0) board_.set_waits(place, worker_, true);
  }
  void end_wait(uint8_t port, const IpAddress& ip) {
    const uint32_t place = board_.place_of(port, ip).index;
    if (--waiting_[place] == 0) board_.set_waits(place, worker_, false);
  }

 private:
  NeighbourBoard& board_;
  const uint32_t worker_;
  std::vector<uint32_t> known_;    ///< entries by place
  std::vector<uint32_t> waiting_;  ///< those of them without a MAC
};

}  // namespace lyre::link
