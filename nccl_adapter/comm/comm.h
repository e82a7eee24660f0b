#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/abi/telemetry.h"
#include "nccl_adapter/comm/request_table.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/lane.h"

namespace lyre::nccl_adapter {

/// The process at the other end, for messages.
struct Peer {
  std::string host;
  uint32_t pid = 0;
  std::string address;
  std::string describe() const;
};

/// A region that NCCL registered.
struct Registration {
  const uint8_t* base;
  uint64_t bytes;
  Memory* memory;  ///< nullptr for a receiving comm, which only has to know when to stop
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
  /// After this the region is not read or written; a request that would have is cancelled, and the
  /// comm with it.
  nccl_abi::Result remove_registration(const Registration* registration);

  /// Starts the end: says goodbye on every lane.
  void begin_close();
  /// It was closed with nothing in flight.
  bool has_parted() const { return is_closing_ && !is_aborted_ && !has_failed(); }
  /// The peer's host has the goodbye. REQUIRES: begin_close() before.
  bool is_goodbye_heard();
  /// Whether the goodbye is acknowledged, or no stream is left that could be.
  bool is_close_done();
  /// Leaves the sessions to the daemon, which finishes in order what is still worth it.
  void finish_close();

  /// Moves what can be moved.
  void pump();
  void on_ready() override { pump(); }
  /// What has to happen by the clock.
  void tick(int64_t now_ns);
  /// The daemon is lost, and every session with it; it is back.
  virtual void on_detached();
  virtual void on_attached(int64_t now_ns);

  bool has_failed() const { return result_ != nccl_abi::Result::kSuccess; }
  nccl_abi::Result result() const { return result_; }
  const std::string& why() const { return why_; }
  bool is_any_up() const;

  /// Where the comm shows itself; nullptr: nowhere. Owner: the instance's telemetry.
  nccl_abi::CommSlot* slot() const { return slot_; }
  void set_slot(nccl_abi::CommSlot* slot) { slot_ = slot; }
  /// Writes how the comm is to its slot.
  void show() const;

 protected:
  virtual Request* post_request(void* data, uint64_t bytes) = 0;
  virtual void release_request(Request* request) = 0;
  virtual size_t active() const = 0;
  virtual uint64_t outstanding_bytes() const = 0;
  virtual bool touches(const uint8_t* base, uint64_t bytes) const = 0;
  virtual const char* direction_text() const = 0;
  virtual const Request* oldest() const = 0;
  virtual bool is_sender() const = 0;
  /// What only one direction knows of itself, and whom it waits for.
  virtual void describe(nccl_abi::CommView* out) const = 0;
  /// Sends what may be sent.
  virtual void pump_out() = 0;
  /// Takes bytes that came over one lane, all of them. False: one of their frames ended the comm.
  virtual bool take(Lane& lane, std::span<const uint8_t> bytes) = 0;
  /// What the other side must know before a goodbye.
  virtual void last_words(std::vector<uint8_t>*) const {}
  /// The lane has no session any more.
  virtual void on_lane_lost(Lane&) {}
  virtual void watch(int64_t) {}
  /// Whether a request or connect() waits for the peer.
  virtual bool is_awaiting() const { return active() > 0; }
  /// The peer's host has a hello, and its process has not answered yet.
  virtual bool is_answer_due() const { return false; }

  /// Ends the comm with a reason, which the next call that needs the comm reports. The first wins.
  void fail(nccl_abi::Result result, std::string why);
  /// Takes what has come over one lane.
  void pump_in(Lane& lane);
  /// The session of a lane failed, or ended without a goodbye.
  void on_broken(Lane& lane, Io how);
  /// A send on it failed: what arrived before that is taken first.
  void on_send_failed(Lane& lane);
  /// The peer closed a connection on which it had said nothing.
  void note_peer_ended();
  void drop_lane(Lane& lane);
  /// REQUIRES: is_closing().
  void say_goodbye(Lane& lane);
  void on_bye();
  /// Waits for the peer are measured from here.
  void note_sign_of_life(int64_t now_ns) { alive_ns_ = now_ns; }
  /// A lane has a new session: the peer's process is there.
  void note_attached(int64_t now_ns) {
    alive_ns_ = now_ns;
    has_peer_ended_ = false;
  }
  void note_trouble(std::string what) { trouble_ = std::move(what); }
  bool is_closing() const { return is_closing_; }

  std::vector<std::unique_ptr<Lane>> lanes_;
  Peer peer_;

 private:
  nccl_abi::Result report();
  void let_go(const Registration& registration);
  bool is_goodbye_heard_on(Lane& lane) const;
  int64_t ping_ns() const;
  void ask_for_life(int64_t now_ns);
  void judge_end();
  void judge_absence(int64_t now_ns);

  Environment* environment_;
  Nonce id_;
  nccl_abi::Result result_ = nccl_abi::Result::kSuccess;
  std::string why_;
  std::string trouble_;  ///< what went wrong last on a lane
  bool is_reported_ = false;
  bool is_closing_ = false;
  bool is_aborted_ = false;
  bool is_answered_ = false;     ///< the peer ended its side after our goodbye
  bool has_peer_ended_ = false;  ///< a lane ended in order and without a goodbye
  int64_t alive_ns_;
  int64_t lost_ns_ = 0;  ///< since when there is no session; 0: there is one
  std::vector<std::unique_ptr<Registration>> registrations_;
  nccl_abi::CommSlot* slot_ = nullptr;
  Operation last_operation_;
};

}  // namespace lyre::nccl_adapter
