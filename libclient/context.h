#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "libclient/arena.h"
#include "libclient/attach.h"
#include "libclient/listener.h"
#include "libclient/memory_source.h"
#include "libclient/region.h"
#include "libclient/resources.h"
#include "libclient/session.h"
#include "libclient/worker_link.h"
#include "stack/base/core_contention.h"

/// One attachment to a daemon. Its verbs live in a file each: context.cc (its life), session.cc
/// (names and ends of sessions), dispatch.cc (what the workers report), poll.cc (waiting).
/// Thread: one at a time.
struct lyre_context {
 public:
  /// Takes over what the daemon gave after checking it. 0 or a LYRE_E code.
  int adopt(lyre::client::Attachment&& attachment);
  ~lyre_context();

  // ---- Failure ----

  /// 0, or the code with which every call on this context must answer.
  int check() const { return __builtin_expect(failure_ == 0, 1) ? 0 : report_failure(); }
  /// Ends the context: every session has ended with `code`.
  void fail(int code, const char* text);

  // ---- Sessions and listeners ----

  lyre_session* add_session(uint32_t worker);
  /// Nothing refers to it any more. Frees the blocks it still has.
  void remove_session(lyre_session* session);
  lyre_listener* add_listener();
  void remove_listener(lyre_listener* listener);
  /// The user lets go of a session: by FIN, or by RST.
  void give_up(lyre_session* session, lyre::channel::Op op);
  uint64_t make_cookie() { return ++last_cookie_; }
  void expect_connection(lyre_session* session);
  uint32_t pick_worker() { return next_worker_++ % worker_count(); }
  /// Frees the oldest `count` blocks under way and notes their tags.
  void finish_sends(lyre_session& session, uint64_t count);
  /// Gives back the slot of a run that the user is done with.
  void release_slot(lyre_session& session, uint32_t slot) {
    uint64_t& untold = session.untold_copies.rx_bytes;
    const uint32_t copied_bytes = lyre::client::to_tell(untold);
    workers_[session.worker].release(session.name, slot, copied_bytes);
    untold -= copied_bytes;
  }

  // ---- Registered memory ----

  lyre_region* add_region(const void* data, size_t bytes);
  void remove_region(lyre_region* region);
  /// Tells the daemon of it. 0 also when the daemon will not have it: then the region says why.
  int register_region(lyre_region& region, const lyre::client::MemorySource& source);
  /// 0 when nobody can read it any more.
  int deregister_region(uint32_t name);

  // ---- What happened ----

  /// `what` (lyre_event_bits) happened on `item`: lyre_poll() and lyre_next_event() report it.
  void mark_ready(lyre::client::Waitable* item, uint32_t what);
  void unmark_ready(lyre::client::Waitable* item);
  /// The oldest event, `happened` 0 when there is none. It stays until drop_first_event().
  lyre_event first_event() const;
  /// REQUIRES: first_event().happened != 0.
  void drop_first_event() { unmark_ready(first_ready_); }
  bool take_news() { return std::exchange(has_news_, false); }

  // ---- Waiting ----

  /// Takes what the workers reported, in bounded portions, and hands over what waits here.
  /// Returns the completions taken.
  size_t work();
  /// Works until `is_done()` or `timeout_ms` (-1: no limit) is over. 1: done, 0: time is over, or
  /// the context's failure.
  template <typename Done>
  int work_until(int timeout_ms, Done is_done);
  bool has_completions();
  /// True when something is left here that no completion would wake us for.
  bool has_unsent() const;
  bool arm();
  void disarm();
  /// Looks whether the daemon is still there, not more often than once a millisecond.
  void look_at_control(int64_t now);

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  lyre::client::WorkerLink& worker(uint32_t index) { return workers_[index]; }
  const std::vector<lyre_port>& ports() const { return ports_; }
  lyre::client::Arena& arena() { return arena_; }
  uint8_t* arena_memory() const { return arena_memory_; }
  int poll_fd() const { return poll_fd_.get(); }
  uint64_t sends_under_way() const { return sends_under_way_; }
  void count_send() { ++sends_under_way_; }
  const std::vector<lyre_session*>& sessions() const { return sessions_; }

 private:
  int report_failure() const;
  int adopt_memory(const lyre::channel::AttachReply& reply);
  int adopt_pools(const lyre::channel::AttachReply& reply,
                  std::vector<lyre::client::UniqueFd>& fds);
  int adopt_poll_fd();
  void adopt_ports(const lyre::channel::AttachReply& reply);

  size_t drain(uint32_t worker);
  void on_completion(uint32_t worker, const lyre::channel::Completion& entry);
  void on_connecting(uint32_t worker, const lyre::channel::Completion& entry);
  void on_connected(uint32_t worker, const lyre::channel::Completion& entry);
  void on_connect_failed(const lyre::channel::Completion& entry);
  void on_listening(uint32_t worker, const lyre::channel::Completion& entry);
  void on_accepted(uint32_t worker, const lyre::channel::Completion& entry);
  void on_send_done(lyre_session& session, const lyre::channel::Completion::Body::SendDone& news);
  void on_data(uint32_t worker, lyre_session* session, const lyre::channel::Completion& entry);
  void on_ended(lyre_session& session, lyre::channel::EndStatus status);
  /// The bytes of a lent slice; nullptr when they lie outside of what was lent.
  const uint8_t* lent_bytes(uint8_t pool, const lyre::channel::LentSlice& slice) const;
  bool name_session(lyre_session& session, const lyre::channel::Completion& entry);

  template <typename Request>
  int ask_about_region(Request& request, lyre::channel::Control type, int descriptor,
                       lyre::channel::RegionReply& reply);

  void idle_once(int64_t now, int64_t idle_since, int64_t deadline);
  void sleep(int64_t wait_ns);
  void read_control();

  int failure_ = 0;
  std::string failure_text_;
  lyre::client::UniqueFd control_;
  lyre::client::UniqueFd wake_;
  lyre::client::UniqueFd poll_fd_;
  lyre::client::Mapping memory_;
  lyre::client::Mapping doorbells_;
  std::vector<lyre::client::Mapping> pools_;
  lyre::channel::ContextHeader* header_ = nullptr;
  uint8_t* arena_memory_ = nullptr;
  uint64_t copy_offset_ = 0;
  uint64_t copy_bytes_ = 0;
  lyre::client::Arena arena_;
  std::vector<lyre::client::WorkerLink> workers_;
  std::vector<lyre_port> ports_;

  std::vector<std::unique_ptr<lyre_region>> regions_;
  std::vector<lyre_session*> sessions_;
  std::unordered_map<uint64_t, lyre_session*> connecting_;  ///< by cookie
  std::unordered_map<uint64_t, lyre_listener*> listeners_;  ///< by cookie
  uint64_t last_cookie_ = 0;
  uint32_t next_worker_ = 0;
  uint64_t sends_under_way_ = 0;
  lyre::client::Waitable* first_ready_ = nullptr;
  lyre::client::Waitable* last_ready_ = nullptr;
  bool has_news_ = false;
  bool is_armed_ = false;
  int64_t control_seen_ns_ = 0;
  lyre::CoreContention contention_;
};

#include "libclient/work_until.h"
