#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nccl_adapter/settings.h"

namespace lyre::nccl_adapter {

/// Decides when the peer of a comm is gone: it ended, or it is away for too long.
/// Units: times are the environment's clock. Owner: the comm.
class PeerWatch {
 public:
  /// What the comm knows at the moment.
  struct Situation {
    bool is_any_up;      ///< there is a session
    bool is_answer_due;  ///< the peer's host has a hello, and its process has not answered yet
    bool is_awaiting;    ///< a request or connect() waits for the peer
  };

  explicit PeerWatch(int64_t now_ns) : alive_ns_(now_ns) {}

  /// The peer, or its host, acknowledged or said something.
  void note_sign_of_life(int64_t now_ns) { alive_ns_ = now_ns; }
  /// A lane has a new session: the peer's process is there.
  void note_attached(int64_t now_ns) {
    alive_ns_ = now_ns;
    has_ended_ = false;
  }
  /// This host's daemon is back: what was missed meanwhile is not the peer's fault.
  void note_daemon_back(int64_t now_ns) {
    alive_ns_ = now_ns;
    lost_ns_ = 0;
  }
  /// The peer closed a connection in order and without a bye.
  void note_ended() { has_ended_ = true; }
  /// Whether a message is here whose receive is not posted yet: the end of the peer's process,
  /// which took it for done, waits until it is placed.
  void note_unplaced(bool is_any) { is_any_unplaced_ = is_any; }
  /// The peer said bye, and what it sent before is still to be placed. The end of its connections
  /// is no trouble then.
  void note_bye() { has_said_bye_ = true; }
  bool has_said_bye() const { return has_said_bye_; }
  /// What went wrong last on a lane: part of the reason.
  void note_trouble(std::string what) { trouble_ = std::move(what); }

  /// Nobody at the other end waits for anything or dials again: the peer said bye, or its process
  /// ended. It may be so while the comm goes on: messages are here whose receives are not posted.
  bool is_gone(const Situation& situation) const;
  /// The reason for which the comm has to fail, if there is one.
  std::optional<std::string> judge_end(const Situation& situation) const;
  std::optional<std::string> judge_absence(const Situation& situation, const Settings& settings,
                                           int64_t now_ns);
  /// For LYRE_PEER_TIMEOUT_SECONDS the peer's host has had a hello, and its process has not
  /// answered, while there is no session. True once, until there is one.
  bool is_answer_late(const Situation& situation, const Settings& settings, int64_t now_ns);

 private:
  bool has_process_ended(const Situation& situation) const;

  int64_t alive_ns_;
  int64_t lost_ns_ = 0;        ///< since when there is no session; 0: there is one
  int64_t unanswered_ns_ = 0;  ///< since when an answer is due without one; 0: none was
  bool has_ended_ = false;
  bool is_any_unplaced_ = false;
  bool has_said_bye_ = false;
  std::string trouble_;
};

}  // namespace lyre::nccl_adapter
