#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/rng.h"
#include "stack/tcp/segment.h"

namespace lyre::sim {

/// One TCP segment on the wire: its header as values, and its bytes.
struct Packet {
  FourTuple at_receiver;
  tcp::SegmentIn segment;
  std::vector<uint8_t> bytes;
};

/// Units: loss, reordering and duplication in packets per million.
struct LinkConfig {
  Nanos delay = micros(50);
  int64_t rate_bytes_per_s = 1'250'000'000;
  uint32_t queue_bytes = 1 << 20;    ///< a packet is lost when more than this waits for the wire
  uint32_t mark_bytes = UINT32_MAX;  ///< RFC 3168 5: with so many waiting, ECT becomes CE
  uint32_t loss_ppm = 0;
  uint32_t loss_burst_packets = 1;  ///< so many consecutive packets are lost
  uint32_t reorder_ppm = 0;         ///< these are delayed up to four times longer
  uint32_t duplicate_ppm = 0;
  Nanos cut_from = kNever;  ///< from here to cut_until all packets are lost
  Nanos cut_until = kNever;
};

/// One direction of a wire; all random choices come from its seed.
class SimLink {
 public:
  SimLink(const LinkConfig& config, uint64_t seed) : config_(config), rng_(seed) {}

  void send(Packet packet, Nanos now);
  Nanos next_arrival() const { return arrivals_.empty() ? kNever : arrivals_.top().at; }
  /// REQUIRES: the time of next_arrival() has been reached.
  Packet take();
  uint64_t sent_count() const { return sent_count_; }
  uint64_t lost_count() const { return lost_count_; }

 private:
  struct Arrival {
    Nanos at;
    uint64_t order;
    uint32_t index;
    bool operator>(const Arrival& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  bool is_lost(Nanos now);
  void deliver(Packet packet, Nanos at);

  LinkConfig config_;
  Rng rng_;
  Nanos free_at_{0};
  uint32_t burst_left_ = 0;
  uint64_t order_ = 0;
  uint64_t sent_count_ = 0;
  uint64_t lost_count_ = 0;
  std::vector<Packet> store_;
  std::vector<uint32_t> free_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
};

}  // namespace lyre::sim
