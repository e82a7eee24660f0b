#include "tests/sim/adapter/plan_rates.h"

#include <algorithm>

namespace lyre::adapter_sim {
namespace {

/// One link with more to send than the network takes before its rate was measured.
void make_busy(Plan* plan, uint64_t bytes_per_s, uint32_t message_bytes) {
  NetworkSettings& network = plan->network;
  network.rails = 1;
  network.delay_ns = std::min<int64_t>(network.delay_ns, 200 * kUs);
  network.bytes_per_s = 1'000'000'000;
  network.segment_bytes_max = 8'960;
  network.in_flight_bytes_max = 64 * 1024;
  network.pool_bytes = 4 << 20;
  network.arena_bytes = 64 << 20;
  network.loss_ppm = 0;
  LinkPlan& link = keep_one_link(plan);
  for (RankPlan& rank : plan->ranks) rank.turn_ns = std::min(rank.turn_ns, 200 * kUs);
  link.in_flight_max = 8;
  const auto seconds = static_cast<double>(plan->rate_from_ns + kSecond) / kSecond;
  const double bytes = static_cast<double>(bytes_per_s) * seconds;
  const MessagePlan message{.bytes = message_bytes, .posted_bytes = message_bytes};
  link.messages.assign(static_cast<size_t>(bytes / message_bytes) + 1, message);
  plan->bytes_per_s_min = bytes_per_s * 9 / 10;
}

void limit_flows(Draw& draw, uint64_t flows, Plan* plan) {
  NetworkSettings& network = plan->network;
  network.flow_bytes_per_s = 8'000'000;
  network.host_bytes_per_s = flows * network.flow_bytes_per_s;
  network.port_mbps = draw.one_of<uint32_t>({0, 0, 10'000, 40'000});
  plan->streams = 0;
  plan->rate_from_ns = 1500 * kMs;
  make_busy(plan, network.host_bytes_per_s, 128 * 1024);
}

}  // namespace

LinkPlan& keep_one_link(Plan* plan) {
  plan->ranks.resize(2);
  plan->links.resize(1);
  LinkPlan& link = plan->links.front();
  link.from = 0;
  link.to = 1;
  link.from_device = link.to_device = 0;
  return link;
}

void make_slow(Draw& draw, Plan* plan) {
  plan->streams = 1;
  plan->checks_dials = true;
  plan->peer_timeout_s = 30;
  plan->resume_s = 10;
  NetworkSettings& network = plan->network;
  network.rails = 1;
  network.delay_ns = draw.of_any_size(20 * kUs, 100 * kMs);
  network.bytes_per_s = static_cast<uint64_t>(draw.of_any_size(40'000, 1'000'000));
  network.segment_bytes_max = 1'460;
  network.queue_bytes = static_cast<uint64_t>(draw.between(8, 64)) * 1024;
  network.in_flight_bytes_max = static_cast<uint64_t>(draw.between(16, 256)) * 1024;
  network.loss_ppm = 0;
  LinkPlan& link = keep_one_link(plan);
  link.messages.resize(std::min<size_t>(link.messages.size(), 5));
  for (MessagePlan& message : link.messages) {
    message.bytes = std::min<uint32_t>(message.bytes, 300'000);
  }
}

void make_capped(Draw& draw, Plan* plan) {
  limit_flows(draw, static_cast<uint64_t>(draw.between(1, 8)), plan);
}

void make_capped_together(Draw& draw, Plan* plan) {
  const auto links = static_cast<size_t>(draw.between(2, 3));
  limit_flows(draw, links * static_cast<uint64_t>(draw.between(1, 3)), plan);
  LinkPlan link = plan->links.front();
  link.messages.resize(link.messages.size() / links + 1);
  plan->links.assign(links, link);
}

void make_paths(Draw& draw, Plan* plan) {
  NetworkSettings& network = plan->network;
  plan->streams = draw.one_of({3, 4});
  network.fabric_paths = 8;
  network.fabric_path_bytes_per_s = 4'000'000;
  plan->rate_from_ns = 6 * kSecond;
  make_busy(plan, static_cast<uint64_t>(plan->streams) * network.fabric_path_bytes_per_s,
            512 * 1024);
}

}  // namespace lyre::adapter_sim
