#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/comm/comm_memory.h"
#include "nccl_adapter/comm/goodbye.h"
#include "nccl_adapter/comm/peer_watch.h"
#include "nccl_adapter/comm/queue_pairs.h"
#include "nccl_adapter/comm/request_table.h"
#include "nccl_adapter/observe/comm_view.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/lanes.h"

namespace lyre::nccl_adapter {

/// The process at the other end, for messages.
struct Peer {
  std::string host;
  uint32_t pid = 0;
  std::string address;
  std::string describe() const;
};

/// Why a comm cannot go on.
struct Failure {
  nccl_abi::Result result = nccl_abi::Result::kSuccess;  ///< kSuccess: it can
  std::string why;
  bool is_reported = false;  ///< a call returned it
};

/// One NCCL connection, seen from one end: an ordered stream of messages in one direction, carried
/// by several lanes. A lane that breaks is replaced; the comm fails when the peer does not answer
/// any more. Thread: under the instance's lock. Owner: the instance.
class Comm : public SessionOwner {
 public:
  Comm(Environment* environment, const Nonce& id, Peer peer, size_t lanes);
  virtual ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Environment* environment() const { return environment_; }
  /// The same on both sides.
  const Nonce& id() const { return id_; }
  const Peer& peer() const { return peer_; }

  /// isend or irecv. *out is nullptr with kSuccess when all requests are in use.
  /// `registration`, of this comm, may be nullptr.
  nccl_abi::Result post(void* data, uint64_t bytes, const Registration* registration,
                        const Operation& operation, Request** out);
  nccl_abi::Result test(Request* request, int* done, int* sizes);
  Registration* add_registration(const void* data, uint64_t bytes);
  /// Whether the removal should wait a little: it would cost a stream, or a queue pair, whose peer
  /// has not acknowledged what was sent from there.
  bool should_wait_to_deregister(const Registration* registration) const;
  /// After this the region is not read or written; a request that would have is cancelled, and the
  /// comm with it.
  nccl_abi::Result remove_registration(const Registration* registration);

  /// Starts the end: sends a bye frame on every lane. goodbye() tells how far that got, and
  /// finishes it.
  void begin_close();
  Goodbye& goodbye() { return goodbye_; }
  /// Whether close() should wait with that: test() said done of messages that the peer has not
  /// placed, and nothing else is in flight. Asks the peer for that, once.
  bool should_wait_to_close();

  /// Moves what can be moved.
  void pump();
  void on_ready() override { pump(); }
  /// What has to happen by the clock.
  void tick(int64_t now_ns);
  /// The daemon is lost, and every session with it; it is back.
  virtual void on_detached();
  virtual void on_attached(int64_t now_ns);

  bool has_failed() const { return failure_.result != nccl_abi::Result::kSuccess; }
  const Failure& failure() const { return failure_; }
  /// How the comm is, for `lyre comms`. Owner: valid until the comm changes.
  CommFacts facts() const;

 protected:
  virtual Request* post_request(void* data, uint64_t bytes) = 0;
  virtual RequestTable& requests() = 0;
  virtual const RequestTable& requests() const = 0;
  virtual bool is_sender() const = 0;
  /// What only one direction knows of itself, and whom it waits for.
  virtual void describe(nccl_abi::CommView* out) const = 0;
  /// Sends what may be sent.
  virtual void pump_out() = 0;
  /// Takes bytes that came over one lane, all of them. False: one of their frames ended the comm.
  virtual bool take(Lane& lane, std::span<const uint8_t> bytes) = 0;
  /// Frames that the other side must have before a bye.
  virtual std::vector<uint8_t> last_words() const { return {}; }
  /// The lane has no session any more.
  virtual void on_lane_lost(Lane&) {}
  virtual void watch(int64_t) {}
  /// Whether a request or connect() waits for the peer.
  virtual bool is_awaiting() const { return requests().active() > 0; }
  /// The peer's host has a hello, and its process has not answered yet.
  virtual bool is_answer_due() const { return false; }

  /// Ends the comm with a reason, which the next call that needs the comm reports. The first wins.
  void fail(nccl_abi::Result result, std::string why);
  /// Takes what has come over one lane.
  void pump_in(Lane& lane);
  /// The session of a lane failed, or ended without a bye.
  void on_broken(Lane& lane, Io how);
  /// A send on it failed: what arrived before that is taken first.
  void on_send_failed(Lane& lane);
  void drop_lane(Lane& lane);
  void on_bye();
  /// Fails when the peer ended.
  void judge_end();

  Lanes lanes_;  ///< of streams
  QueuePairs queue_pairs_;
  Peer peer_;
  PeerWatch peer_watch_;
  Goodbye goodbye_;

 private:
  nccl_abi::Result report();
  void ask_for_life(int64_t now_ns);
  PeerWatch::Situation situation() const;

  Environment* environment_;
  Nonce id_;
  Failure failure_;
  bool is_placement_asked_ = false;  ///< by a ping, before the close
  CommMemory memory_;
  Operation last_operation_;
};

}  // namespace lyre::nccl_adapter
