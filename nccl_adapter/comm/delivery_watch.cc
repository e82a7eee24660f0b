#include "nccl_adapter/comm/delivery_watch.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

// Without a stream the peer is absent, which is another matter. A peer that takes no more for the
// moment has taken what came before.
void DeliveryWatch::look(const Lanes& lanes, const Situation& situation) {
  bool does_arrive = std::exchange(placed_, situation.placed) != situation.placed;
  for (const auto& lane : lanes) {
    if (!lane->is_up()) continue;
    // A message may have less than kDeliveredBytesMin.
    const bool has_all = lane->unacked_bytes == 0 && !lane->sent.empty();
    if (has_all || lane->has_delivered()) lane->undelivered = 0;
    if (has_all && lane->sent.back().message >= situation.placed) does_arrive = true;
    if (lane->has_delivered() && lane->gained_bytes > 0) does_arrive = true;
    if (lane->is_window_closed) does_arrive = true;
  }
  if (does_arrive || !situation.is_awaiting || !lanes.is_any_up()) undelivered_ = 0;
}

// Before TCP gives the session up.
int64_t DeliveryWatch::pause_ns(const Lane& lane, const Settings& settings) {
  if (lane.has_delivered()) return 0;
  const int64_t most_ns =
      std::min<int64_t>(kUndeliveredNsMax, int64_t{silence_ms(settings)} * 1'000'000 / 2);
  const int64_t all_ns = std::min(kStallNs << std::min(lane.undelivered, 10u), most_ns);
  return std::max<int64_t>(all_ns - kStallNs, 0);
}

void DeliveryWatch::note_stall(Lane& lane) {
  if (lane.has_delivered()) return;
  ++lane.undelivered;
  if (undelivered_++ == 0) since_ns_ = lane.moved_ns;
  path_ = lane.path_text;
}

std::optional<std::string> DeliveryWatch::judge(const Settings& settings, int64_t now_ns) const {
  if (undelivered_ < kUndeliveredStreamsMin) return std::nullopt;
  if (now_ns - since_ns_ <= settings.peer_timeout_s * kNsPerSecond) return std::nullopt;
  return "it is connected, but no data arrives (" + path_ +
         "): the path may drop large packets; given up after " +
         std::to_string((now_ns - since_ns_) / kNsPerSecond) + " s and " +
         std::to_string(undelivered_) + " connections";
}

}  // namespace lyre::nccl_adapter
