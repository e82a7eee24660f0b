#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "stack/base/index_list.h"
#include "stack/base/ip_address.h"
#include "stack/base/slab.h"

namespace lyre::worker {

/// As in Linux, a backlog of n takes n + 1.
inline constexpr uint32_t kBeyondBacklog = 1;

/// What is left for connections when a SYN arrives.
struct PlacesForSyn {
  bool has_cookies = false;  ///< SYN cookies may answer
  bool is_scarce = false;    ///< handshakes have their share, or all places are in use
  bool has_room = true;      ///< there is a place, or a session that can be dropped
};

/// What a listener does with a SYN.
enum class SynAnswer : uint8_t { kOpen, kCookie, kBacklogFull, kNoPlace };

/// One listening endpoint of one client, on this worker.
struct Listener {
  Endpoint local;  ///< address unspecified: any of ours
  uint32_t context = UINT32_MAX;
  uint32_t generation = 0;
  uint64_t cookie = 0;
  uint32_t backlog = 0;
  uint32_t embryonic = 0;      ///< handshakes under way, a part of `pending`
  uint32_t pending = 0;        ///< handshakes under way and sessions not yet announced
  uint32_t next = UINT32_MAX;  ///< with the same port
  /// Sessions that the client was told of, by entries of its ring before `position`.
  struct Told {
    uint32_t count = 0;
    uint32_t position = 0;
  };
  Told told_first;  ///< some of these the client has not read
  Told told_later;
  IndexLink link;  ///< in the list of its context

  /// Sessions whose handshake is complete and that the client may not know yet.
  uint32_t waiting() const { return pending - embryonic + told_first.count + told_later.count; }
  uint32_t waiting_max() const { return backlog + kBeyondBacklog; }
  bool is_full() const { return waiting() >= waiting_max(); }
  bool is_overfull() const { return waiting() > waiting_max(); }

  /// A SYN proves nothing about its sender, so no session is dropped for it where a cookie can
  /// answer instead (RFC 4987 3.6). The ACK that returns the cookie gets a place, if there is one
  /// at all.
  SynAnswer answer_to_syn(const PlacesForSyn& places) const {
    if (is_full()) return SynAnswer::kBacklogFull;
    if (!places.has_room) return SynAnswer::kNoPlace;
    const bool is_backlog_used = waiting() + embryonic >= waiting_max();
    if (places.has_cookies && (is_backlog_used || places.is_scarce)) return SynAnswer::kCookie;
    return is_backlog_used ? SynAnswer::kBacklogFull : SynAnswer::kOpen;
  }
  /// For the peer that returns a cookie the connection is open. If the server sends first, the peer
  /// sends nothing after its ACK: if that were dropped, it would wait for ever. So what is beyond
  /// the backlog is reset.
  bool takes_cookie() const { return !is_full(); }

  /// A handshake begins, is complete, or has ended; a complete one is announced, or has ended.
  void begin_handshake() { ++pending, ++embryonic; }
  void end_handshake() { --embryonic; }
  void leave() { --pending; }
  /// The last entry of the ring, whose position is given, tells of one that was pending.
  void tell(uint32_t position) { told_later = {told_later.count + 1, position}; }
  /// Sessions of which the client has read no longer wait. They are counted in two parts, so that
  /// a client that always leaves some entries unread makes room as well.
  template <typename Ring>
  void forget_read(Ring& ring) {
    for (int parts = 2; parts > 0; --parts) {
      if (told_first.count > 0 && !ring.is_read(told_first.position)) return;
      told_first = told_later;
      told_later = {};
    }
  }
};

/// All listeners of a worker, by port. Thread: the worker.
class Listeners {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit Listeners(uint32_t listeners_max)
      : listeners_(listeners_max), by_port_(new std::array<uint32_t, 65536>()) {
    by_port_->fill(kNone);
  }

  /// Whether a client that has so many may have another one: not more than are free, so that others
  /// find some.
  bool may_add(uint32_t of_client) const { return of_client < listeners_.room(); }
  /// kNone when the table is full. REQUIRES: !is_taken(local).
  uint32_t add(const Listener& listener) {
    const uint32_t index = listeners_.take();
    if (index == Slab<Listener>::kNone) return kNone;
    listeners_[index] = listener;
    if (++generations_ == 0) ++generations_;  // handover records allow no 0
    listeners_[index].generation = generations_;
    uint32_t& head = (*by_port_)[listener.local.port];
    listeners_[index].next = head;
    head = index;
    return index;
  }
  /// The listener `index` of another process, with its generation. False: the index or the address
  /// is taken. REQUIRES: listeners are restored in the order of their indices, before any is added.
  bool restore(uint32_t index, const Listener& listener) {
    if (index < listeners_.touched() || index >= listeners_.capacity() || is_taken(listener.local))
      return false;
    listeners_.take_at(index);
    listeners_[index] = listener;
    uint32_t& head = (*by_port_)[listener.local.port];
    listeners_[index].next = head;
    head = index;
    return true;
  }
  /// Generations are used once: those of another process were used, too.
  uint32_t generations() const { return generations_; }
  void restore_generations(uint32_t used) { generations_ = used; }
  uint32_t index_bound() const { return listeners_.touched(); }
  void remove(uint32_t index) {
    uint32_t* link = &(*by_port_)[listeners_[index].local.port];
    while (*link != index) {
      LYRE_CHECK(listeners_.is_taken(*link));  // add() put it into the list of this port
      link = &listeners_[*link].next;
    }
    *link = listeners_[index].next;
    listeners_.give_back(index);
  }
  /// True when a listener has the port with the same, or any, address.
  bool is_taken(const Endpoint& local) const {
    for (uint32_t i = (*by_port_)[local.port]; i != kNone; i = listeners_[i].next) {
      const IpAddress& other = listeners_[i].local.address;
      if (other == local.address || other.is_unspecified() || local.address.is_unspecified()) {
        return true;
      }
    }
    return false;
  }
  /// The listener for a SYN to `local`; an exact address beats "any".
  uint32_t find(const Endpoint& local) const {
    uint32_t any = kNone;
    for (uint32_t i = (*by_port_)[local.port]; i != kNone; i = listeners_[i].next) {
      if (listeners_[i].local.address == local.address) return i;
      if (listeners_[i].local.address.is_unspecified()) any = i;
    }
    return any;
  }
  bool is_port_used(uint16_t port) const { return (*by_port_)[port] != kNone; }
  bool is_valid(uint32_t index, uint32_t generation) const {
    return listeners_.is_taken(index) && listeners_[index].generation == generation;
  }
  Listener& operator[](uint32_t index) { return listeners_[index]; }
  const Listener& operator[](uint32_t index) const { return listeners_[index]; }
  bool is_open(uint32_t index) const { return listeners_.is_taken(index); }

 private:
  Slab<Listener> listeners_;
  std::unique_ptr<std::array<uint32_t, 65536>> by_port_;
  uint32_t generations_ = 0;
};

}  // namespace lyre::worker
