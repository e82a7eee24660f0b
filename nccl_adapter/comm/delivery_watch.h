#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nccl_adapter/settings.h"
#include "nccl_adapter/transport/lanes.h"

namespace lyre::nccl_adapter {

/// Decides when a sender gives up a peer that answers although no data gets there: a path may pass
/// small packets and drop large ones. Streams are made again and again then, each with a good
/// handshake, so that PeerWatch sees a peer.
/// Units: times are the environment's clock. Owner: the comm.
class DeliveryWatch {
 public:
  /// What the comm knows at the moment.
  struct Situation {
    uint64_t placed;   ///< messages
    bool is_awaiting;  ///< a request waits for the peer
  };

  /// Looks whether data arrived over one of the streams since the last look, after theirs.
  void look(const Lanes& lanes, const Situation& situation);
  /// How much longer a session that stalls stays before another takes its place. The successor of
  /// one that delivered nothing may have the same path, and gets time in which TCP tries smaller
  /// packets.
  static int64_t pause_ns(const Lane& lane, const Settings& settings);
  /// The session of the lane is about to be dropped because it stalled.
  void note_stall(Lane& lane);

  /// The reason for which the comm has to fail, if there is one.
  std::optional<std::string> judge(const Settings& settings, int64_t now_ns) const;

 private:
  uint64_t placed_ = 0;       ///< at the last look
  uint32_t undelivered_ = 0;  ///< sessions in a row that stalled and delivered nothing
  int64_t since_ns_ = 0;      ///< when the first of them stalled
  std::string path_;          ///< of the last one
};

}  // namespace lyre::nccl_adapter
