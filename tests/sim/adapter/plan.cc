#include "tests/sim/adapter/plan.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tests/sim/adapter/draw.h"
#include "tests/sim/adapter/plan_rates.h"
#include "tests/sim/adapter/plan_rdma.h"

namespace lyre::adapter_sim {
namespace {

/// A stream that had to take another rail pair is back on its own after this long: some attempts
/// fit into it.
constexpr int64_t kReturnTimeNs = 100 * kSecond;

uint32_t draw_size(Draw& draw) {
  switch (draw.index(9)) {
    case 0:
      return 0;
    case 1:
      return static_cast<uint32_t>(draw.between(1, 64));
    case 2:
      return static_cast<uint32_t>(65'536 + draw.between(-2, 2));
    case 3:
      return static_cast<uint32_t>(16'384 + draw.between(-2, 2));
    case 4:
      return static_cast<uint32_t>(262'144 - 32 + draw.between(-2, 2));
    case 5:
      return static_cast<uint32_t>(draw.between(100'000, 1'200'000));
    default:
      return static_cast<uint32_t>(draw.of_any_size(1, 300'000));
  }
}

int64_t draw_pause(Draw& draw, bool computes) {
  if (computes && draw.percent(4)) return draw.between(1, 20) * kSecond;
  if (draw.percent(70)) return 0;
  return draw.of_any_size(kUs, 20 * kMs);
}

LinkPlan draw_link(Draw& draw, size_t from, size_t to, size_t rails, bool computes) {
  LinkPlan link;
  link.from = from;
  link.to = to;
  link.from_device = static_cast<int>(draw.index(rails));
  link.to_device = static_cast<int>(draw.index(rails));
  link.handle_ns = draw.of_any_size(kUs, 50 * kMs);
  link.in_flight_max = draw.one_of<size_t>({1, 2, 4, 8, 8, 32});
  link.is_registered = draw.percent(70);
  link.tests_any_request = draw.percent(20);
  const bool is_late = draw.percent(20);
  uint32_t largest = 0;
  const int64_t count = draw.one_of<int64_t>({1, 5, 20, 40});
  int64_t bytes = 0;
  for (int64_t i = 0; i < count && bytes < 3'000'000; ++i) {
    MessagePlan message;
    message.bytes = draw_size(draw);
    message.posted_bytes = message.bytes + (draw.percent(30) ? draw_size(draw) / 4 : 0);
    message.send_pause_ns = draw_pause(draw, computes);
    message.receive_pause_ns =
        is_late ? draw.of_any_size(kUs, 200 * kMs) : draw_pause(draw, computes);
    bytes += message.bytes;
    largest = std::max(largest, message.posted_bytes);
    link.messages.push_back(message);
  }
  if (largest > 100'000) link.in_flight_max = std::min<size_t>(link.in_flight_max, 4);
  return link;
}

void draw_network(Draw& draw, Plan* plan) {
  NetworkSettings& network = plan->network;
  network.hosts = static_cast<size_t>(draw.between(2, 3));
  network.rails = draw.one_of<size_t>({1, 1, 2, 2, 3, 4});
  network.is_routed = draw.percent(60);
  network.is_one_network = network.is_routed && draw.percent(50);
  network.delay_ns = draw.of_any_size(5 * kUs, 20 * kMs);
  network.bytes_per_s = static_cast<uint64_t>(draw.of_any_size(20'000'000, 2'000'000'000));
  network.segment_bytes_max = draw.one_of<uint32_t>({1'460, 8'960, 65'536, 65'536});
  if (network.bytes_per_s > 100'000'000 && network.segment_bytes_max < 8'960) {
    network.segment_bytes_max = 8'960;
  }
  network.pool_bytes = draw.one_of<uint32_t>({1 << 17, 1 << 20, 4 << 20});
  network.arena_bytes = draw.one_of<uint64_t>({1 << 20, 8 << 20, 64 << 20});
  network.loss_ppm = draw.percent(20) ? static_cast<uint32_t>(draw.between(1, 2'000)) : 0;
  network.is_memory_direct = draw.percent(70);
  network.lags_acks = draw.percent(50);
}

void draw_ranks(Draw& draw, Plan* plan) {
  const auto count = static_cast<size_t>(draw.one_of<int64_t>({2, 2, 3, 4, 8}));
  for (size_t i = 0; i < count; ++i) {
    RankPlan rank;
    rank.host = i % plan->network.hosts;
    rank.start_ns = draw.of_any_size(kUs, 30 * kMs);
    rank.turn_ns = draw.of_any_size(2 * kUs, 2 * kMs);
    rank.leaves_comms_open = draw.percent(15);
    rank.close_pause_ns = draw.percent(50) ? 0 : draw.of_any_size(kUs, 2 * kSecond);
    plan->ranks.push_back(rank);
  }
}

// Streams between a device and one that it cannot reach would be NCCL's mistake: rails that are not
// routed are paired.
void draw_links(Draw& draw, Plan* plan, bool computes) {
  const size_t ranks = plan->ranks.size();
  for (size_t i = 0; i < ranks; ++i) {
    if (ranks == 2 && i == 1 && draw.percent(50)) break;
    const size_t to = draw.percent(80) ? (i + 1) % ranks : (i + 1 + draw.index(ranks - 1)) % ranks;
    LinkPlan link = draw_link(draw, i, to, plan->network.rails, computes);
    if (!plan->network.is_routed) link.to_device = link.from_device;
    plan->links.push_back(std::move(link));
  }
}

// Before v11 a process has one attachment for all its communicators, and here all ranks are in one
// process: one of them at most takes such a version.
void draw_abis(Draw& draw, Plan* plan) {
  for (RankPlan& rank : plan->ranks) rank.abi = draw.one_of({11, 12});
  if (draw.percent(50)) {
    plan->ranks[draw.index(plan->ranks.size())].abi = draw.one_of({8, 9, 10});
  }
  for (LinkPlan& link : plan->links) link.tries_group = draw.percent(25);
}

bool has_other_rails(const Plan& plan) { return plan.network.rails > 1; }

/// The longest outage that a single stream must survive: TCP's timer, doubled since, must expire
/// once more before the peer timeout.
int64_t short_outage(Draw& draw, const Plan& plan) {
  return draw.of_any_size(kMs, std::min(plan.peer_timeout_s, 2 * plan.resume_s) * kSecond / 4);
}

/// How long a daemon may be away.
int64_t daemon_outage(Draw& draw, const Plan& plan) {
  const int64_t most_s = std::min(plan.peer_timeout_s, 2 * plan.resume_s);
  return draw.of_any_size(10 * kMs, most_s * kSecond / 4);
}

Fault draw_stream_fault(Draw& draw, const Plan& plan) {
  Fault fault;
  fault.kind = draw.one_of({Fault::Kind::kReset, Fault::Kind::kReset, Fault::Kind::kBlackhole});
  if (plan.streams != 1 && draw.percent(20)) fault.kind = Fault::Kind::kSlow;
  fault.lasts_ns = fault.kind == Fault::Kind::kBlackhole ? draw.of_any_size(kMs, 100 * kSecond) : 0;
  return fault;
}

Fault draw_rail_fault(Draw& draw, const Plan& plan) {
  Fault fault;
  fault.kind = draw.percent(70) ? Fault::Kind::kRail : Fault::Kind::kCut;
  fault.host = draw.index(plan.network.hosts);
  fault.rail = draw.index(plan.network.rails);
  fault.peer = (fault.host + 1 + draw.index(plan.network.hosts - 1)) % plan.network.hosts;
  fault.peer_rail = plan.network.is_routed ? draw.index(plan.network.rails) : fault.rail;
  fault.lasts_ns = has_other_rails(plan) && draw.percent(50) ? draw.of_any_size(kMs, 100 * kSecond)
                                                             : short_outage(draw, plan);
  return fault;
}

Fault draw_daemon_fault(Draw& draw, const Plan& plan) {
  Fault fault;
  fault.host = draw.index(plan.network.hosts);
  fault.kind = draw.one_of({Fault::Kind::kDaemonDies, Fault::Kind::kDaemonDies,
                            Fault::Kind::kDaemonStops, Fault::Kind::kDaemonPauses});
  fault.lasts_ns = fault.kind == Fault::Kind::kDaemonPauses ? short_outage(draw, plan)
                                                            : daemon_outage(draw, plan);
  return fault;
}

Fault draw_pause_fault(Draw& draw, const Plan& plan) {
  return {.kind = Fault::Kind::kRankPauses,
          .lasts_ns = draw.of_any_size(10 * kMs, 60 * kSecond),
          .host = draw.index(plan.ranks.size())};
}

Fault draw_end_fault(Draw& draw, const Plan& plan) {
  Fault fault;
  fault.kind = draw.one_of({Fault::Kind::kRankDies, Fault::Kind::kRankDies, Fault::Kind::kHostDies,
                            Fault::Kind::kRankAborts, Fault::Kind::kDaemonDies});
  const bool is_of_host =
      fault.kind == Fault::Kind::kHostDies || fault.kind == Fault::Kind::kDaemonDies;
  fault.host = draw.index(is_of_host ? plan.network.hosts : plan.ranks.size());
  fault.lasts_ns = 10'000 * kSecond;
  return fault;
}

/// Faults that have to be survived follow each other when what the last one broke is mended.
void add_fault(Draw& draw, Plan* plan, Fault fault) {
  int64_t from_ns = 0;
  for (const Fault& earlier : plan->faults) {
    from_ns =
        std::max(from_ns, earlier.at_ns + earlier.lasts_ns + 2 * plan->peer_timeout_s * kSecond);
  }
  fault.at_ns = from_ns + draw.of_any_size(10 * kUs, 10 * kSecond);
  plan->faults.push_back(fault);
}

/// Messages are on their way, and receives are waited for, when something breaks, while it is
/// broken, and when it is mended.
void meet_faults(Draw& draw, Plan* plan) {
  for (LinkPlan& link : plan->links) {
    size_t first = 0;
    for (const Fault& fault : plan->faults) {
      if (fault.lasts_ns >= 10'000 * kSecond && fault.kind != Fault::Kind::kRankAborts) continue;
      if (first >= link.messages.size()) break;
      first += draw.index(link.messages.size() - first);
      MessagePlan& message = link.messages[first++];
      const int64_t from_ns = std::max<int64_t>(0, fault.at_ns - draw.of_any_size(1, 20 * kMs));
      const int64_t lasts_ns = plan->ends_soon ? kMs : fault.lasts_ns;
      const int64_t span_ns = fault.at_ns - from_ns + lasts_ns + kMs;
      if (draw.percent(70)) message.send_at_ns = from_ns + draw.of_any_size(1, span_ns);
      if (draw.percent(70)) message.receive_at_ns = from_ns + draw.of_any_size(1, span_ns);
    }
  }
}

void set_bound(Plan* plan) {
  int64_t ns = plan->stays_ns;
  for (const Fault& fault : plan->faults) {
    if (fault.lasts_ns < 10'000 * kSecond) ns = std::max(ns, fault.at_ns + fault.lasts_ns);
    ns = std::max(ns, fault.at_ns);
  }
  for (const LinkPlan& link : plan->links) {
    for (const MessagePlan& message : link.messages) {
      ns = std::max({ns, message.send_at_ns, message.receive_at_ns});
      ns += message.send_pause_ns + message.receive_pause_ns;
      ns += static_cast<int64_t>(message.bytes) * 2 * kSecond /
            static_cast<int64_t>(plan->network.bytes_per_s);
    }
  }
  if (plan->ends_soon) {
    plan->bound_ns = 20 * kSecond;
    return;
  }
  plan->bound_ns = ns + 3 * (plan->peer_timeout_s + plan->resume_s) * kSecond + 120 * kSecond;
}

/// Every stream must come back to the pair that it began on.
void make_return(Draw& draw, Plan* plan) {
  plan->network.rails = static_cast<size_t>(draw.between(2, 3));
  plan->network.is_routed = true;
  plan->checks_return = true;
  for (LinkPlan& link : plan->links) {
    link.from_device = static_cast<int>(draw.index(plan->network.rails));
    link.to_device = plan->network.is_routed ? static_cast<int>(draw.index(plan->network.rails))
                                             : link.from_device;
  }
  Fault fault = draw_rail_fault(draw, *plan);
  fault.at_ns = 10 * kSecond + draw.of_any_size(kMs, kSecond);
  plan->faults.push_back(fault);
  plan->stays_ns = fault.at_ns + fault.lasts_ns + kReturnTimeNs;
}

/// Adjacent ports fail together, before any rank connects.
void make_neighbours(Draw& draw, Plan* plan) {
  plan->network.rails = 4;
  plan->network.is_routed = true;
  const auto device = static_cast<size_t>(draw.index(4));
  for (LinkPlan& link : plan->links) link.to_device = static_cast<int>(device);
  plan->faults.push_back({.kind = Fault::Kind::kNeighbours,
                          .at_ns = 0,
                          .lasts_ns = 300 * kSecond,
                          .host = plan->ranks[plan->links.front().to].host,
                          .rail = device});
}

/// Nothing breaks: every stream takes the rails that NCCL chose, where those share a network. Where
/// packets are lost, a dial may run into its limit and try another pair; its stream must return.
void make_clean(Draw&, Plan* plan) {
  plan->checks_rails = true;
  plan->stays_ns = plan->network.loss_ppm > 0 ? kReturnTimeNs : 3 * kSecond;
  if (plan->network.is_one_network) return;
  for (LinkPlan& link : plan->links) link.to_device = link.from_device;
}

/// No rank waits for another while all streams are lost, for as long as it takes: no comm may fail.
void make_idle(Draw& draw, Plan* plan) {
  const int64_t from_ns = 60 * kSecond;
  const int64_t lasts_ns = draw.between(1, 120) * kSecond;
  for (size_t host = 0; host < plan->network.hosts; ++host) {
    for (size_t rail = 0; rail < plan->network.rails; ++rail) {
      if (host > 0 && draw.percent(50)) continue;
      plan->faults.push_back({.kind = Fault::Kind::kRail,
                              .at_ns = from_ns,
                              .lasts_ns = lasts_ns,
                              .host = host,
                              .rail = rail});
    }
  }
  if (draw.percent(50)) {
    Fault fault = draw_daemon_fault(draw, *plan);
    fault.at_ns = from_ns + draw.of_any_size(kMs, 10 * kSecond);
    plan->faults.push_back(fault);
  }
  const int64_t again_ns = from_ns + lasts_ns + 30 * kSecond + draw.of_any_size(kMs, kSecond);
  for (LinkPlan& link : plan->links) {
    if (link.messages.size() < 2) link.messages.push_back(link.messages.front());
    for (MessagePlan& message : link.messages) {
      message.send_pause_ns = std::min<int64_t>(message.send_pause_ns, 10 * kMs);
      message.receive_pause_ns = std::min<int64_t>(message.receive_pause_ns, 10 * kMs);
    }
    const size_t first = 1 + draw.index(link.messages.size() - 1);
    // A receiver that waits can only be found: the sender must have noticed that it is lost.
    link.messages[first].send_at_ns =
        again_ns + (draw.percent(50) ? draw.between(1, 60) : 0) * kSecond;
    link.messages[first].receive_at_ns = again_ns;
  }
}

/// One of several streams stands still for long, the others show that the peer is there: nothing
/// has to wait for it.
void make_stall(Draw& draw, Plan* plan) {
  plan->streams = draw.one_of({2, 4, 8});
  plan->network.delay_ns = std::min(plan->network.delay_ns, kMs);
  plan->network.bytes_per_s = std::max<uint64_t>(plan->network.bytes_per_s, 200'000'000);
  plan->network.loss_ppm = 0;
  plan->ends_soon = true;
  for (LinkPlan& link : plan->links) {
    // A rank with nothing under way looks twice a second: a message may cost half a second.
    link.messages.resize(std::min<size_t>(link.messages.size(), 20));
    for (MessagePlan& message : link.messages) {
      message.send_pause_ns = std::min<int64_t>(message.send_pause_ns, 10 * kMs);
      message.receive_pause_ns = std::min<int64_t>(message.receive_pause_ns, 10 * kMs);
    }
  }
  plan->faults.push_back({.kind = Fault::Kind::kBlackhole,
                          .at_ns = kSecond + draw.of_any_size(kMs, 100 * kMs),
                          .lasts_ns = 1000 * kSecond});
}

/// A network on which nothing is lost and no path is long: what takes long is the plugin's doing.
void make_short_paths(Plan* plan) {
  NetworkSettings& network = plan->network;
  network.delay_ns = std::min(network.delay_ns, 2 * kMs);
  network.bytes_per_s = std::max<uint64_t>(network.bytes_per_s, 500'000'000);
  network.loss_ppm = 0;
}

/// A rank stands still amid large messages for longer than a stream may stall. Some of its windows
/// close and others do not; its host answers on all streams, so none is replaced.
void make_stopped(Draw& draw, Plan* plan) {
  make_short_paths(plan);
  plan->checks_dials = true;
  plan->streams = draw.one_of({2, 4, 8});
  plan->network.rails = 1;
  plan->network.pool_bytes = draw.one_of<uint32_t>({1 << 14, 1 << 16, 1 << 17});
  LinkPlan& link = keep_one_link(plan);
  link.messages.resize(static_cast<size_t>(draw.between(1, 8)));
  for (MessagePlan& message : link.messages) {
    message = {.bytes = static_cast<uint32_t>(draw.between(100'000, 1'200'000))};
    message.posted_bytes = message.bytes;
    message.send_at_ns = message.receive_at_ns = kSecond;
  }
  plan->faults.push_back({.kind = Fault::Kind::kRankPauses,
                          .at_ns = kSecond + draw.of_any_size(10 * kUs, 20 * kMs),
                          .lasts_ns = draw.between(2, 60) * kSecond,
                          .host = 1});
}

/// A rank dies, and its host is well.
void make_deaths(Draw& draw, Plan* plan) {
  make_short_paths(plan);
  plan->must_complete = false;
  plan->checks_death = true;
  // Comms for which no rank has waited yet have other limits.
  for (RankPlan& rank : plan->ranks) rank.turn_ns = std::min(rank.turn_ns, kMs);
  plan->faults.push_back({.kind = Fault::Kind::kRankDies,
                          .at_ns = kSecond + draw.of_any_size(kMs, 5 * kSecond),
                          .lasts_ns = 10'000 * kSecond,
                          .host = draw.index(plan->ranks.size())});
}

/// A daemon dies or stops and comes back, while all ranks wait.
void make_resume(Draw& draw, Plan* plan) {
  make_short_paths(plan);
  plan->checks_resume = true;
  plan->peer_timeout_s = 30;
  plan->resume_s = 10;
  if (!plan->network.is_routed) {
    for (LinkPlan& link : plan->links) link.to_device = link.from_device;
  }
  Fault fault = draw_daemon_fault(draw, *plan);
  while (fault.kind == Fault::Kind::kDaemonPauses) fault = draw_daemon_fault(draw, *plan);
  fault.at_ns = 60 * kSecond;
  plan->faults.push_back(fault);
  plan->stays_ns = fault.at_ns + fault.lasts_ns + 20 * kSecond;
}

/// One message is larger than its receive.
void make_mismatch(Draw& draw, Plan* plan) {
  LinkPlan& link = plan->links[draw.index(plan->links.size())];
  MessagePlan& message = link.messages[draw.index(link.messages.size())];
  message.bytes = std::max<uint32_t>(message.bytes, 1);
  message.posted_bytes = static_cast<uint32_t>(draw.index(message.bytes));
  plan->must_complete = false;
}

using Maker = void (*)(Draw&, Plan*);

template <Fault (*draw_fault)(Draw&, const Plan&)>
void add_some(Draw& draw, Plan* plan) {
  for (int64_t i = draw.between(1, 3); i > 0; --i) add_fault(draw, plan, draw_fault(draw, *plan));
}

void make_ends(Draw& draw, Plan* plan) {
  plan->must_complete = false;
  Fault fault = draw_end_fault(draw, *plan);
  fault.at_ns = draw.of_any_size(10 * kUs, 10 * kSecond);
  plan->faults.push_back(fault);
}

void make_everything(Draw& draw, Plan* plan) {
  for (int64_t i = draw.between(1, 4); i > 0; --i) {
    const auto chosen = draw.one_of<Fault (*)(Draw&, const Plan&)>(
        {draw_stream_fault, draw_rail_fault, draw_daemon_fault, draw_pause_fault});
    add_fault(draw, plan, chosen(draw, *plan));
  }
  if (draw.percent(25)) make_ends(draw, plan);
}

/// Queue pairs and devices come and go, and streams, ports, daemons and ranks fail in turn.
void make_fail_over_everything(Draw& draw, Plan* plan) {
  make_everything(draw, plan);
  make_fail_over(draw, plan);
}

template <void (*make)(Draw&, Plan*)>
void on_short_paths(Draw& draw, Plan* plan) {
  make_short_paths(plan);
  make(draw, plan);
}

const std::vector<std::pair<std::string, Maker>>& makers() {
  static const std::vector<std::pair<std::string, Maker>> all = {
      {"clean", make_clean},
      {"streams", add_some<draw_stream_fault>},
      {"rails", add_some<draw_rail_fault>},
      {"daemons", add_some<draw_daemon_fault>},
      {"pauses", add_some<draw_pause_fault>},
      {"ends", make_ends},
      {"idle", make_idle},
      {"stall", make_stall},
      {"slow", make_slow},
      {"stopped", make_stopped},
      {"deaths", make_deaths},
      {"resume", make_resume},
      {"mismatch", make_mismatch},
      {"return", make_return},
      {"neighbours", make_neighbours},
      {"capped", make_capped},
      {"capped_together", make_capped_together},
      {"paths", make_paths},
      {"everything", make_everything},
      {"queue_pairs", on_short_paths<make_queue_pairs>},
      {"fail_over", make_fail_over},
      {"fail_over_everything", make_fail_over_everything},
      {"late_writes", make_late_writes},
      {"rdma_return", on_short_paths<make_rdma_return>},
  };
  return all;
}

}  // namespace

const char* name_of(Fault::Kind kind) {
  static constexpr const char* kNames[] = {"a connection is reset",
                                           "a connection is a black hole",
                                           "a connection is slow",
                                           "a port is down",
                                           "neighbouring ports are down",
                                           "two ports are cut off",
                                           "a daemon dies",
                                           "a daemon stops",
                                           "a daemon stands still",
                                           "a rank stands still",
                                           "a rank dies",
                                           "a host dies",
                                           "a rank aborts",
                                           "a queue pair breaks",
                                           "RDMA devices vanish",
                                           "RDMA devices fall silent",
                                           "RDMA is cut off"};
  return kNames[static_cast<size_t>(kind)];
}

const std::vector<std::string>& scenarios() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, maker] : makers()) all.push_back(name);
    return all;
  }();
  return names;
}

Plan make_plan(const std::string& scenario, uint64_t seed) {
  Draw draw(seed * 2654435761u + scenario.size());
  Plan plan;
  plan.scenario = scenario;
  plan.seed = seed;
  draw_network(draw, &plan);
  plan.streams = static_cast<int>(draw.one_of<int64_t>({0, 1, 2, 4, 8}));
  plan.uses_all_rails = draw.percent(50);
  plan.peer_timeout_s = static_cast<int>(draw.one_of<int64_t>({5, 10, 30}));
  plan.resume_s = static_cast<int>(draw.one_of<int64_t>({2, 5, 10}));
  draw_ranks(draw, &plan);
  draw_links(draw, &plan, scenario != "clean" && draw.percent(50));
  for (const auto& [name, maker] : makers()) {
    if (name == scenario) maker(draw, &plan);
  }
  if (scenario != "idle" && scenario != "stopped") meet_faults(draw, &plan);
  draw_abis(draw, &plan);
  set_bound(&plan);
  return plan;
}

}  // namespace lyre::adapter_sim
