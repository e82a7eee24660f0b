#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Sessions that may have something to send, and those that wait for the MAC address of their
/// neighbour. A session is in one of the two lists, or in none.
///
/// Turns go round by client, then by session (deficit round robin). A client has credit in bytes;
/// its sessions have turns, one after the other, until it is used up. Then the other clients have
/// theirs, and it gets kQuantumBytes times its weight more. So the number of a client's sessions
/// does not change its share. Sessions without a client (half-open, orphans) count as one client.
///
/// A round is in vain when every session in the queue has had a turn in it and could send nothing.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class TransmitQueue {
 public:
  static constexpr int64_t kQuantumBytes = 64 << 10;
  /// What a turn costs beside its bytes: a client must not have turns without end in which its
  /// sessions send nothing.
  static constexpr int64_t kTurnCostBytes = 1 << 10;
  /// The least that a packet with data costs. Its work does not depend on its size, and a peer can
  /// ask for packets of a few bytes.
  static constexpr uint64_t kPacketCostBytes = 512;

  struct Turn {
    uint32_t conn = 0;
    uint32_t client = 0;  ///< for charge()
  };

  /// Sessions have indices below `sessions_max`, contexts below `contexts_max`.
  TransmitQueue(session::Session* sessions, uint32_t sessions_max, uint32_t contexts_max)
      : sessions_(sessions), clients_(contexts_max + 1), vain_in_(sessions_max) {}

  /// The client's credit grows by so many quanta a round. REQUIRES: weight > 0.
  void set_weight(uint32_t client, uint32_t weight) { clients_[client].weight = weight; }
  /// Puts the session at the end of its client's queue; one that waits for its neighbour stops
  /// waiting. No effect on one that is in the queue already.
  void schedule(uint32_t conn) {
    session::Session& scheduled = sessions_[conn];
    if (scheduled.waits_for_neighbour) stop_waiting(conn);
    if (scheduled.transmit_link.is_linked()) return;
    const uint32_t client = client_of(scheduled);
    scheduled.transmit_client = static_cast<uint16_t>(client);
    if (!clients_[client].link.is_linked()) in_turn_.push_back(clients_, client);
    clients_[client].ready.push_back(sessions_, conn);
    ++size_;
  }
  /// The same for a session that was served, and could send nothing of what it has.
  void schedule_after_vain_turn(uint32_t conn) {
    schedule(conn);
    if (vain_in_[conn] == round_) return;
    vain_in_[conn] = round_;
    ++vain_count_;
  }
  bool has_vain_turns() const { return vain_count_ > 0; }
  /// From now on turns are counted anew.
  void begin_round() {
    vain_count_ = 0;
    if (round_ == std::numeric_limits<uint16_t>::max()) {
      std::fill(vain_in_.begin(), vain_in_.end(), uint16_t{0});
      round_ = 0;
    }
    ++round_;
  }
  bool is_round_in_vain() const { return vain_count_ == size_; }
  /// Takes the session out of either list. No effect on one that is in none.
  void remove(uint32_t conn) {
    const session::Session& removed = sessions_[conn];
    if (removed.waits_for_neighbour) return stop_waiting(conn);
    if (removed.transmit_link.is_linked()) leave(conn, removed.transmit_client);
  }
  /// The session whose turn it is leaves the queue. REQUIRES: not empty.
  Turn take() {
    uint32_t client = in_turn_.front();
    // Each round adds a quantum, and a turn costs a few of them at most, so this ends soon.
    for (; !is_next(client); client = in_turn_.front()) pass_over(client);
    const uint32_t conn = clients_[client].ready.front();
    leave(conn, client);
    return {.conn = conn, .client = client};
  }
  /// What the turn has sent. `bytes`: of data, in `packets` packets.
  void charge(uint32_t client, uint64_t bytes, uint64_t packets) {
    int64_t& credit = clients_[client].credit_bytes;
    const uint64_t least = bytes > 0 ? packets * kPacketCostBytes : 0;
    credit -= static_cast<int64_t>(std::max(bytes, least)) + kTurnCostBytes;
    // The credit of an only client does not fall below one negative quantum.
    if (in_turn_.size() <= 1) credit = std::max<int64_t>(credit, -kQuantumBytes);
  }
  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }

  /// The session waits until it is woken or scheduled. REQUIRES: it is in neither list.
  void wait_for_neighbour(uint32_t conn) {
    waiting_.push_back(sessions_, conn);
    sessions_[conn].waits_for_neighbour = true;
  }
  /// All sessions that wait now are to be woken. wake_some() does it.
  void begin_waking() { to_wake_ = waiting_.size(); }
  bool is_waking() const { return to_wake_ > 0; }
  /// Schedules at most `count_max` of the sessions that are to be woken, the longest waiting first.
  void wake_some(uint32_t count_max) {
    // Some of them may have left the list since.
    to_wake_ = std::min(to_wake_, waiting_.size());
    for (; to_wake_ > 0 && count_max > 0; --to_wake_, --count_max) schedule(waiting_.front());
  }

 private:
  struct Client {
    IndexList<session::Session, &session::Session::transmit_link> ready;
    int64_t credit_bytes = 0;
    uint32_t weight = 1;
    IndexLink link;  ///< in the round: clients that had ready sessions
  };

  uint32_t client_of(const session::Session& scheduled) const {
    const auto orphans = static_cast<uint32_t>(clients_.size() - 1);
    return std::min(scheduled.context, orphans);  // kNoContext is the largest number
  }
  bool is_next(uint32_t client) const {
    const Client& first = clients_[client];
    return !first.ready.empty() && (first.credit_bytes > 0 || in_turn_.size() == 1);
  }
  /// The first of the round has no session left that is ready, or no credit.
  void pass_over(uint32_t client) {
    Client& first = clients_[client];
    in_turn_.remove(clients_, client);
    if (first.ready.empty()) {
      first.credit_bytes = std::min<int64_t>(first.credit_bytes, 0);  // unused credit is not kept
      return;
    }
    first.credit_bytes += kQuantumBytes * first.weight;
    in_turn_.push_back(clients_, client);
  }
  /// The client keeps its place in the round until it is passed over: mostly it comes back at once.
  void leave(uint32_t conn, uint32_t client) {
    clients_[client].ready.remove(sessions_, conn);
    --size_;
    if (vain_count_ == 0 || vain_in_[conn] != round_) return;
    vain_in_[conn] = 0;
    --vain_count_;
  }
  void stop_waiting(uint32_t conn) {
    waiting_.remove(sessions_, conn);
    sessions_[conn].waits_for_neighbour = false;
  }

  session::Session* sessions_;
  std::vector<Client> clients_;  ///< by context; the last is that of sessions without one
  IndexList<Client, &Client::link> in_turn_;
  uint32_t size_ = 0;
  std::vector<uint16_t> vain_in_;  ///< by session: the round in which its last turn was in vain
  uint16_t round_ = 1;
  uint32_t vain_count_ = 0;  ///< sessions in the queue of which that is the present one
  IndexList<session::Session, &session::Session::transmit_link> waiting_;
  uint32_t to_wake_ = 0;
};

}  // namespace lyre::worker
