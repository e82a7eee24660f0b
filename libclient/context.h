#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "libclient/arena.h"
#include "libclient/attach.h"
#include "libclient/context_memory.h"
#include "libclient/listener.h"
#include "libclient/ready_list.h"
#include "libclient/region.h"
#include "libclient/regular_work.h"
#include "libclient/resources.h"
#include "libclient/session.h"
#include "libclient/vain_rounds.h"
#include "libclient/waiter.h"
#include "libclient/worker_link.h"

namespace lyre::client {
/// Ends the context of a client that the daemon disconnects and has not told yet why.
void fail_untold(lyre_context& context, const char* text);
/// Where the context ended so: waits for the Goodbye, or the hang-up. The daemon says it when
/// workers and ports have let go of the client's memory. Ends 2 s after the end of the context at
/// the latest; the text of lyre_last_error() is then that the daemon did not answer.
void await_goodbye(lyre_context& context);
}  // namespace lyre::client

/// One attachment to a daemon. Its methods are in a file for each subject: context.cc (beginning
/// and end), session.cc (names and ends of sessions), listen.cc (listeners), dispatch.cc (what the
/// workers report), poll.cc (waiting). Thread: one at a time.
struct lyre_context {
 public:
  /// Checks the daemon's answer and maps its memory. 0 or a LYRE_E code.
  int adopt(lyre::client::Attachment&& attachment, int patience_ms);
  /// REQUIRES: this process opened it. A child of fork() does not have its memory.
  ~lyre_context();

  // ---- Failure ----

  /// 0, or the code that every call on this context returns.
  int check() const { return __builtin_expect(failure_ == 0, 1) ? 0 : report_failure(); }
  /// Ends the context: every session has ended with `code`.
  void fail(int code, const char* text);

  // ---- Sessions and listeners ----

  lyre_session* add_session(uint32_t worker);
  /// Nothing refers to it any more. Frees the blocks it still has.
  void remove_session(lyre_session* session);
  lyre_listener* add_listener();
  void remove_listener(lyre_listener* listener);
  /// The user closes (FIN) or aborts (RST) a session.
  void give_up(lyre_session* session, lyre::channel::Op op);
  /// Answers of workers that lyre_listen() no longer waits for: an address may be in use by them.
  size_t abandoned_listens() const { return abandoned_listens_; }
  void expect_connection(lyre_session* session);
  uint32_t pick_worker() { return next_worker_++ % worker_count(); }
  /// The oldest `count` sends are done: frees their blocks and stores their tags.
  void finish_sends(lyre_session& session, uint64_t count);
  /// Gives a receive slot back to the daemon.
  void release_slot(lyre_session& session, uint32_t slot) {
    uint64_t& untold = session.untold_copies.rx_bytes;
    const uint32_t copied_bytes = lyre::client::to_tell(untold);
    workers_[session.worker].release(session.name, slot, copied_bytes);
    untold -= copied_bytes;
  }

  // ---- Waiting ----

  /// Takes a bounded number of completions from each worker, and submits entries that waited for
  /// room. Returns the completions taken.
  size_t work();
  /// Works until `is_done()` or `timeout_ms` (-1: no limit) is over. 1: done, 0: time is over, or
  /// the context's failure.
  template <typename Done>
  int work_until(int timeout_ms, Done is_done);
  bool has_completions();
  /// True when entries wait for room in a submission ring: no completion reports that room.
  bool has_unsent() const;
  bool arm();
  void disarm();
  /// After a round of the caller that found nothing: whether it should sleep.
  bool must_rest(int64_t now);
  /// See lyre_rest().
  void rest(int64_t max_ns);
  /// See lyre_arm_rest(). Returns nanoseconds.
  int64_t arm_rest(int64_t max_ns);
  /// Checks whether the control socket has hung up, at most once a millisecond, and after a pause
  /// when the first messages have passed.
  void look_at_control(int64_t now);
  /// The same at once.
  void read_control();

  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  lyre::client::WorkerLink& worker(uint32_t index) { return workers_[index]; }
  const std::vector<lyre_port>& ports() const { return ports_; }
  lyre::client::Arena& arena() { return arena_; }
  const lyre::client::ContextMemory& memory() const { return memory_; }
  lyre::client::Regions& regions() { return regions_; }
  lyre::client::ReadyList& ready() { return ready_; }
  /// The control socket.
  const lyre::client::ControlSocket& control() const { return control_; }
  lyre::client::Waiter& waiter() { return waiter_; }
  lyre::client::SendTotals& send_totals() { return send_totals_; }
  const std::vector<lyre_session*>& sessions() const { return sessions_; }

 private:
  /// What the workers report: see dispatch.cc.
  class Reports;

  int report_failure() const;
  size_t drain(uint32_t worker);
  void on_listening(uint32_t worker, const lyre::channel::Completion& entry);

  void idle_once(int64_t now, int64_t idle_since, int64_t deadline);
  void sleep(int64_t wait_ns);

  friend void ::lyre_context_close(lyre_context* context);
  friend void lyre::client::fail_untold(lyre_context& context, const char* text);
  friend void lyre::client::await_goodbye(lyre_context& context);
  pid_t owner_ = 0;      ///< the process that opened it
  int patience_ms_ = 0;  ///< for a daemon that is there and does not answer
  int failure_ = 0;
  std::string failure_text_;
  lyre::client::ControlSocket control_;
  lyre::client::Waiter waiter_;
  lyre::client::VainRounds vain_rounds_;
  lyre::client::ContextMemory memory_;
  lyre::client::Arena arena_;
  std::vector<lyre::client::WorkerLink> workers_;
  std::vector<lyre_port> ports_;

  lyre::client::Regions regions_;
  std::vector<lyre_session*> sessions_;
  std::unordered_map<uint64_t, lyre_session*> connecting_;  ///< by cookie
  std::unordered_map<uint64_t, lyre_listener*> listeners_;  ///< by cookie
  size_t abandoned_listens_ = 0;
  uint64_t last_cookie_ = 0;
  uint32_t next_worker_ = 0;
  uint32_t heard_ = 0;  ///< the worker that gave the last completion; 0 before one did
  lyre::client::SendTotals send_totals_;
  lyre::client::ReadyList ready_;
  lyre::client::RegularWork regular_work_;
  int64_t control_seen_ns_ = 0;
  int64_t goodbye_until_ns_ = 0;  ///< see await_goodbye(); 0: none is awaited
};

namespace lyre::client {

/// Ends the context as its fail() does, after it has taken what the workers had reported: the
/// completions may have the error of each session, and lyre_poll() tells of them first.
void fail_after_completions(lyre_context& context, int code, const char* text);

}  // namespace lyre::client

#include "libclient/work_until.h"
