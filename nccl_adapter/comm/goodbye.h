#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nccl_adapter/comm/peer_watch.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/lanes.h"

namespace lyre::nccl_adapter {

/// The end of a comm by this side: a bye frame on every stream, and whether the peer's host has it.
/// The pointers are borrowed for its life.
/// Thread: under the instance's lock. Owner: the comm.
class Goodbye {
 public:
  struct Words {
    bool is_abort = false;  ///< requests are in flight, and nothing waits for what is to be sent
    bool is_data_under_way = false;   ///< the peer needs what was sent before
    std::span<const uint8_t> last{};  ///< frames that the peer must have before the bye
    FrameHeader bye{.type = FrameType::kBye};
  };

  Goodbye(const Environment* environment, Lanes* lanes, const PeerWatch* peer_watch)
      : environment_(environment), lanes_(lanes), peer_watch_(peer_watch) {}

  /// Sends a bye frame on every lane that is up, behind the last words; dials end. Nothing follows
  /// it but data that is under way.
  void begin(const Words& words);
  /// The same on a stream that came later. REQUIRES: is_begun().
  void say(Lane& lane, std::span<const uint8_t> last_words);
  /// The peer ended its side after it had our bye.
  void note_answered() { is_answered_ = true; }

  bool is_begun() const { return is_begun_; }
  bool is_abort() const { return is_abort_; }
  /// Nothing was in flight.
  bool is_in_order() const { return is_begun_ && !is_abort_; }
  /// The peer's host has the bye: one stream is enough. REQUIRES: is_begun().
  bool is_acknowledged() const;
  /// Every stream's bye is acknowledged, or no stream is left on which it could be.
  bool is_done() const;
  /// Nobody is there any more who could miss the last words: see PeerWatch. REQUIRES: is_begun().
  bool is_peer_gone() const;
  /// is_peer_gone(); or is_done(), and the peer's host has the last words, if there are any. A peer
  /// that misses them dials again while no stream is left. REQUIRES: is_begun().
  bool is_heard() const;
  /// Leaves the sessions to the daemon, which finishes in order what is still of use.
  void finish();

 private:
  bool is_acknowledged_on(Lane& lane) const;

  const Environment* environment_;
  Lanes* lanes_;
  const PeerWatch* peer_watch_;
  bool is_begun_ = false;
  bool is_abort_ = false;
  bool is_data_under_way_ = false;
  FrameHeader bye_;
  bool has_last_words_ = false;  ///< the peer waits for them
  bool is_answered_ = false;
};

}  // namespace lyre::nccl_adapter
