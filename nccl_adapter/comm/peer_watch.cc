#include "nccl_adapter/comm/peer_watch.h"

#include <algorithm>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

// Plugins say bye before they close, and a daemon that stops or is restarted resets: only a daemon
// whose client is gone ends a connection in order without a bye. What was under way over other
// lanes still arrives before their end.
bool PeerWatch::has_process_ended(const Situation& situation) const {
  return has_ended_ && !situation.is_any_up && !situation.is_answer_due;
}

bool PeerWatch::is_gone(const Situation& situation) const {
  return has_said_bye_ || has_process_ended(situation);
}

std::optional<std::string> PeerWatch::judge_end(const Situation& situation) const {
  if (is_any_unplaced_ || !has_process_ended(situation)) return std::nullopt;
  return "its process ended, or gave up, without closing the connection";
}

// Without any session the peer has the time that a daemon may take to come back, and at most the
// time after which a silent peer is given up. Silence counts only while a request waits.
//
// An answer that is due is waited for without a limit, as the kernel's TCP waits for a process that
// is stopped. A limit would give up processes that live: a stopped one, and another program that
// was given the port of one that ended and never answers, look the same from here. In both cases a
// daemon accepts the connection, acknowledges the hello and answers probes, and no process says
// anything. The second case is rare: a daemon chooses the port at random, and another plugin that
// has it refuses the hello. The wait ends when the process that has the port does, because its
// daemon then closes the connection.
std::optional<std::string> PeerWatch::judge_absence(const Situation& situation,
                                                    const Settings& settings, int64_t now_ns) {
  if (situation.is_answer_due || !situation.is_awaiting) alive_ns_ = now_ns;
  if (situation.is_any_up || situation.is_answer_due || !situation.is_awaiting) {
    lost_ns_ = 0;
    return std::nullopt;
  }
  if (lost_ns_ == 0) lost_ns_ = now_ns;
  const bool is_late = now_ns - lost_ns_ > resume_ns(settings);
  if (!is_late && now_ns - alive_ns_ <= settings.peer_timeout_s * kNsPerSecond) return std::nullopt;
  const int64_t since_ns = std::min(lost_ns_, alive_ns_);
  return (trouble_.empty() ? "it does not answer" : trouble_) + "; given up after " +
         std::to_string((now_ns - since_ns) / kNsPerSecond) + " s without it";
}

bool PeerWatch::is_answer_late(const Situation& situation, const Settings& settings,
                               int64_t now_ns) {
  if (situation.is_any_up || !situation.is_awaiting) unanswered_ns_ = 0;
  if (situation.is_any_up || !situation.is_awaiting || !situation.is_answer_due) return false;
  if (unanswered_ns_ == 0) unanswered_ns_ = now_ns;
  if (now_ns - unanswered_ns_ <= settings.peer_timeout_s * kNsPerSecond) return false;
  unanswered_ns_ = INT64_MAX;  // said
  return true;
}

}  // namespace lyre::nccl_adapter
