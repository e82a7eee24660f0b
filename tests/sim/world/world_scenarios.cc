#include "tests/sim/world/world_scenarios.h"

#include <algorithm>
#include <array>
#include <utility>

#include "stack/wire/ipv6.h"

namespace lyre::sim {
namespace {

using io::sim::PathOptions;

constexpr Nanos kBegin = seconds(1) + millis(1);

uint32_t draw(Rng& rng, uint32_t low, uint32_t high) {
  return low + static_cast<uint32_t>(rng.below(high - low + 1));
}
Nanos draw_micros(Rng& rng, uint32_t low, uint32_t high) { return micros(draw(rng, low, high)); }
bool chance(Rng& rng, uint32_t percent) { return rng.chance_ppm(percent * 10'000); }

tcp::ConnectionConfig draw_connection(Rng& rng) {
  using tcp::CongestionAlgorithm;
  static constexpr std::array<CongestionAlgorithm, 4> kAlgorithms = {
      CongestionAlgorithm::kCubic, CongestionAlgorithm::kCubic, CongestionAlgorithm::kNewReno,
      CongestionAlgorithm::kDctcp};
  tcp::ConnectionConfig out;
  out.receive_buffer_bytes = 1u << draw(rng, 15, 20);
  out.send_buffer_bytes = 1u << draw(rng, 14, 20);
  out.congestion = kAlgorithms[rng.below(kAlgorithms.size())];
  out.ecn = static_cast<tcp::EcnMode>(rng.below(3));
  out.timestamps = chance(rng, 80);
  out.sack = chance(rng, 80);
  out.window_scaling = chance(rng, 80);
  out.nagle = chance(rng, 20);
  // Longer than any sequence of losses.
  out.user_timeout_ms = 900'000;
  out.connect_timeout_ms = 900'000;
  out.syn_received_timeout_s = 900;
  // A FIN whose ACK is lost for longer than TIME-WAIT would be answered with a reset.
  out.time_wait_ms = 1000 * draw(rng, 60, 90);
  return out;
}

ClientOptions draw_client(Rng& rng) {
  return {.is_lent = chance(rng, 70),
          .arena_blocks = draw(rng, 8, 48),
          .registered_blocks = chance(rng, 30) ? draw(rng, 1, 16) : 0,
          .step_events = draw(rng, 1, 64)};
}

/// Hosts, and a wire without faults.
WorldPlan draw_world(uint64_t seed, Rng& rng) {
  static constexpr std::array<uint32_t, 4> kMtus = {576, 1280, 1500, 9000};
  WorldPlan plan;
  plan.seed = seed;
  plan.link.seed = seed;
  plan.link.mtu_bytes = kMtus[chance(rng, 60) ? 2 : rng.below(kMtus.size())];
  plan.link.frames_max = draw(rng, 64, 512);
  plan.link.checksums = static_cast<io::sim::Checksums>(rng.below(2));
  plan.link.tx_release = static_cast<io::sim::TxRelease>(rng.below(4));
  plan.link.tx_pieces_max = draw(rng, 1, io::kTxPiecesMax);
  plan.lag_ppm = draw(rng, 0, 200'000);
  const Nanos delay = draw_micros(rng, 1, 2000);
  for (uint32_t i = 0; i < 2; ++i) {
    plan.paths[i].delay = delay;
    plan.hosts[i].connection = draw_connection(rng);
    plan.hosts[i].rx_slots = draw(rng, 128, 768);
    plan.hosts[i].clients.clear();
    for (uint32_t c = draw(rng, 1, 2); c > 0; --c) {
      plan.hosts[i].clients.push_back(draw_client(rng));
    }
  }
  return plan;
}

EndPlan draw_end(Rng& rng, uint32_t bytes_max) {
  return {.send_bytes = chance(rng, 10) ? 0 : draw(rng, 0, bytes_max),
          .chunk_bytes = draw(rng, 1, chance(rng, 50) ? 1500 : Client::kBlockBytes),
          .pause = chance(rng, 10) ? draw_micros(rng, 1, 3000) : nanos(0)};
}

void draw_leavings(Rng& rng, Dialog& dialog) {
  static constexpr std::array<Leaving, 3> kAny = {
      Leaving::kShutdownWhenSent, Leaving::kShutdownWhenHeard, Leaving::kCloseWhenHeard};
  const auto first = static_cast<uint32_t>(rng.below(2));
  // At least one side must send, or neither ever ends.
  dialog.plans[first].leaving = Leaving::kShutdownWhenSent;
  dialog.plans[1 - first].leaving = kAny[rng.below(kAny.size())];
}

struct DialogOptions {
  uint32_t count = 1;
  uint32_t bytes_max = 1000;
  Nanos span = seconds(1);  ///< they start within it
};

void add_dialogs(WorldPlan& plan, Rng& rng, const DialogOptions& options) {
  for (uint32_t i = 0; i < options.count; ++i) {
    Dialog dialog;
    dialog.dialer_host = static_cast<uint32_t>(rng.below(2));
    const WorldHostOptions& dialer = plan.hosts[dialog.dialer_host];
    const WorldHostOptions& acceptor = plan.hosts[1 - dialog.dialer_host];
    dialog.dialer_client = static_cast<uint32_t>(rng.below(dialer.clients.size()));
    dialog.acceptor_client = static_cast<uint32_t>(rng.below(acceptor.clients.size()));
    dialog.is_ipv6 = plan.link.mtu_bytes >= wire::kIpv6MtuBytesMin && chance(rng, 50);
    dialog.number = static_cast<uint32_t>(plan.dialogs.size());
    dialog.dialer_port = static_cast<uint16_t>(kFirstDialPort + plan.dialogs.size());
    dialog.starts_at =
        kBegin + nanos(static_cast<int64_t>(rng.below(static_cast<uint64_t>(options.span.value))));
    for (EndPlan& end : dialog.plans) end = draw_end(rng, options.bytes_max);
    draw_leavings(rng, dialog);
    plan.dialogs.push_back(std::move(dialog));
  }
  for (WorldHostOptions& host : plan.hosts) {
    host.connections_max = static_cast<uint32_t>(plan.dialogs.size()) + 64;
  }
}

void impair(WorldPlan& plan, const PathOptions& faults) {
  plan.may_be_unreachable = true;  // a loss burst may drop all ARP requests
  for (PathOptions& path : plan.paths) {
    const Nanos delay = path.delay;
    path = faults;
    path.delay = delay;
  }
}

void make_rough_weather(WorldPlan& plan, Rng& rng) {
  impair(plan, {.loss_ppm = draw(rng, 0, 30'000),
                .duplicate_ppm = draw(rng, 0, 20'000),
                .corrupt_ppm = draw(rng, 0, 10'000),
                .reorder_ppm = draw(rng, 0, 50'000),
                .reorder_delay = draw_micros(rng, 1, 2000)});
}

void make_bursty_weather(WorldPlan& plan, Rng& rng) {
  impair(plan, {.loss_ppm = draw(rng, 0, 2'000),
                .bad_enter_ppm = draw(rng, 500, 5'000),
                .bad_leave_ppm = draw(rng, 50'000, 500'000),
                .bad_loss_ppm = draw(rng, 300'000, 1'000'000)});
}

void make_bottleneck(WorldPlan& plan, Rng& rng) {
  for (PathOptions& path : plan.paths) {
    path.rate_bytes_per_s = draw(rng, 500'000, 50'000'000);
    path.queue_bytes = draw(rng, 20'000, 200'000);
    path.mark_bytes = chance(rng, 50) ? path.queue_bytes / 4 : 0;
  }
}

void make_small_hosts(WorldPlan& plan, Rng& rng) {
  for (WorldHostOptions& host : plan.hosts) {
    host.rx_slots = draw(rng, 48, 96);
    host.tx_packets = draw(rng, 64, 96);
    host.records_max = draw(rng, 8, 64);
    for (ClientOptions& client : host.clients) {
      client.arena_blocks = draw(rng, 2, 6);
      client.read_pause = draw_micros(rng, 0, 20'000);
    }
  }
  plan.link.frames_max = draw(rng, 32, 64);
}

/// The path's MTU shrinks and grows during transfers; a silent router sends no ICMP.
void add_narrow_times(WorldPlan& plan, Rng& rng, bool is_silent) {
  static constexpr std::array<uint32_t, 5> kMtus = {576, 800, 1100, 1280, 1400};
  plan.link.mtu_bytes = 1500;
  for (uint32_t i = draw(rng, 1, 4); i > 0; --i) {
    const uint32_t host = static_cast<uint32_t>(rng.below(2));
    const uint32_t mtu = chance(rng, 25) ? 0 : kMtus[rng.below(kMtus.size())];
    plan.events.push_back(
        {kBegin + draw_micros(rng, 0, 500'000), [host, mtu, is_silent](World& world) {
           world.host(host).port().set_path_mtu(mtu, is_silent);
         }});
  }
}

/// TIME-WAIT must outlast the outages: a FIN that arrives after it would be answered with a reset.
void expect_outages(WorldPlan& plan, uint32_t time_wait_ms) {
  for (WorldHostOptions& host : plan.hosts) host.connection.time_wait_ms = time_wait_ms;
  plan.may_be_unreachable = true;
}

/// Both directions, which the ports notice, or one, which they do not.
void add_outage(WorldPlan& plan, Rng& rng, Nanos at, Nanos until) {
  if (chance(rng, 50)) {
    plan.events.push_back({at, [](World& world) { world.link().set_up(false); }});
    plan.events.push_back({until, [](World& world) { world.link().set_up(true); }});
    return;
  }
  const auto end = static_cast<int>(rng.below(2));
  plan.events.push_back({at, [end](World& world) { world.link().set_cut(end, true); }});
  plan.events.push_back({until, [end](World& world) { world.link().set_cut(end, false); }});
}

void add_partitions(WorldPlan& plan, Rng& rng) {
  expect_outages(plan, 200'000);
  Nanos at = kBegin;
  for (uint32_t i = draw(rng, 1, 3); i > 0; --i) {
    at += draw_micros(rng, 1, 400'000);
    const Nanos until = at + draw_micros(rng, 1, 20'000'000);
    add_outage(plan, rng, at, until);
    at = until;
  }
}

/// A host has no turn for a while: its machine, its process or its core was taken away.
void add_standstill(WorldPlan& plan, Rng& rng, Nanos at, Nanos span) {
  const auto host = static_cast<uint32_t>(rng.below(2));
  const bool is_asleep = chance(rng, 50);
  plan.events.push_back(
      {at, [host, span, is_asleep](World& world) { world.stand_still(host, span, is_asleep); }});
}

/// 1 ms to 60 s; each doubling is as likely as the next.
Nanos draw_standstill(Rng& rng) {
  const uint32_t least_us = 1000u << rng.below(16);
  return earlier(draw_micros(rng, least_us, 2 * least_us - 1), seconds(60));
}

void make_late_hosts(WorldPlan& plan, Rng& rng) {
  expect_outages(plan, 600'000);  // four standstills, which follow each other, and a backoff
  if (chance(rng, 50)) plan.link.rx_ring_frames = draw(rng, 8, 256);
  add_dialogs(plan, rng, {.count = draw(rng, 5, 30), .bytes_max = 40'000, .span = millis(2000)});
  Nanos at = kBegin;
  for (uint32_t i = draw(rng, 1, 4); i > 0; --i) {
    at += draw_micros(rng, 0, 2'000'000);
    const Nanos span = draw_standstill(rng);
    add_standstill(plan, rng, at, span);
    at += span;  // two of one host at a time would be one
  }
}

/// Receive rings overflow, because hosts are late for a moment. Nothing holds their senders back.
void make_small_rings(WorldPlan& plan, Rng& rng) {
  expect_outages(plan, 200'000);
  plan.link.rx_ring_frames = draw(rng, 8, 64);
  plan.link.frames_max = 2048;
  add_dialogs(plan, rng, {.count = 16, .bytes_max = 60'000});
  for (uint32_t i = draw(rng, 4, 12); i > 0; --i) {
    const Nanos span = draw_micros(rng, 100, 20'000);
    add_standstill(plan, rng, kBegin + draw_micros(rng, 0, 2'000'000), span);
  }
}

/// What WorldPlan::needs_no_timers demands: a wire that only delays, pools that hold everything
/// that is under way, addresses that are verified, and segments of about the size for which windows
/// are computed (a buffer is charged by packet: many small ones fill it before the window is used
/// up, and are refused). Applications release within a tenth of the shortest timeout. With SACK,
/// ACKs are not delayed: a tail probe comes before the ACK of two segments of which one is small.
void make_calm(WorldPlan& plan, Rng& rng) {
  constexpr uint32_t kAmple = 4096;
  constexpr Nanos kAddressesAreVerified = seconds(20);
  plan.needs_no_timers = true;
  plan.link.mtu_bytes = std::min(plan.link.mtu_bytes, 1500u);
  plan.link.frames_max = kAmple;
  for (WorldHostOptions& host : plan.hosts) {
    host.rx_slots = host.tx_packets = host.records_max = kAmple;
    host.connection.quick_ack = host.connection.sack;
  }
  add_dialogs(plan, rng, {.count = draw(rng, 4, 12), .bytes_max = 40'000});
  for (Dialog& dialog : plan.dialogs) {
    dialog.starts_at += kAddressesAreVerified;
    for (EndPlan& end : dialog.plans) end.chunk_bytes = draw(rng, 4096, Client::kBlockBytes);
  }
}

/// A few 4-tuples are used again and again, and frames arrive when the connections that sent them
/// have ended. Timestamps are on: without them only the clock of the sequence numbers keeps
/// connections of a 4-tuple apart, and one that sends faster than it runs is not protected (RFC
/// 7323 5.8, RFC 1337).
void make_reuse(WorldPlan& plan, Rng& rng) {
  constexpr uint32_t kPorts = 3;
  impair(plan, {.duplicate_ppm = draw(rng, 10'000, 100'000),
                .reorder_ppm = draw(rng, 1'000, 20'000),
                .reorder_delay = seconds(30)});  // half of the shortest TIME-WAIT
  plan.link.frames_max = 2048;                   // a late frame keeps its place
  for (WorldHostOptions& host : plan.hosts) {
    host.ephemeral_ports = kPorts;
    host.connection.timestamps = true;
  }
  add_dialogs(plan, rng, {.count = 40, .bytes_max = 10'000, .span = seconds(60)});
  for (Dialog& dialog : plan.dialogs) {
    dialog.shares_ports = true;
    const auto port = static_cast<uint16_t>(kFirstDialPort + rng.below(kPorts));
    dialog.dialer_port = chance(rng, 50) ? uint16_t{0} : port;
  }
}

/// A peer that only receives never notices a lost reset: only keep-alive ends its connection.
void watch_peers(WorldPlan& plan) {
  for (WorldHostOptions& host : plan.hosts) {
    host.connection.keepalive = true;
    host.connection.keepalive_idle_ms = 20'000;
    host.connection.keepalive_interval_ms = 5000;
  }
}

/// Clients crash during transfers: their peers receive a correct prefix of the stream, which is all
/// that is required.
void add_crashes(WorldPlan& plan, Rng& rng) {
  for (Dialog& dialog : plan.dialogs) dialog.is_clean = false;
  watch_peers(plan);
  for (uint32_t i = draw(rng, 1, 3); i > 0; --i) {
    const uint32_t host = static_cast<uint32_t>(rng.below(2));
    const auto client = static_cast<uint32_t>(rng.below(plan.hosts[host].clients.size()));
    plan.events.push_back({kBegin + draw_micros(rng, 0, 1'000'000),
                           [host, client](World& world) { world.crash(host, client); }});
  }
}

void make_rude(WorldPlan& plan, Rng& rng) {
  watch_peers(plan);
  for (Dialog& dialog : plan.dialogs) {
    if (chance(rng, 50)) continue;
    dialog.is_clean = false;
    dialog.plans[rng.below(2)].leaving =
        chance(rng, 50) ? Leaving::kAbortHalfway : Leaving::kCloseWhenSent;
  }
}

void make_everything(WorldPlan& plan, Rng& rng) {
  make_rough_weather(plan, rng);
  for (PathOptions& path : plan.paths) {
    path.bad_enter_ppm = draw(rng, 0, 1'000);
    path.bad_leave_ppm = draw(rng, 100'000, 500'000);
  }
  add_dialogs(plan, rng, {.count = draw(rng, 5, 60), .bytes_max = 20'000, .span = seconds(10)});
  if (chance(rng, 30)) add_partitions(plan, rng);
  if (chance(rng, 30)) add_crashes(plan, rng);
  make_rude(plan, rng);
  plan.replace_engine_ppm = chance(rng, 30) ? 20'000 : 0;
}

/// Ports with TSO and the limits of a driver; memory in pages, whole, or not readable by ports.
void make_cutting_ports(WorldPlan& plan, Rng& rng) {
  static constexpr std::array<uint32_t, 4> kSegmentBytes = {4096, 1024, UINT32_MAX, 0};
  plan.link.checksums = io::sim::Checksums::kHardware;
  plan.link.tso_bytes_max = draw(rng, 3'000, 65'000);
  plan.link.tso_segments_max = draw(rng, 4, 32);
  plan.link.cut_segments_max = draw(rng, 2, 9);
  plan.link.frames_max = 512;  // a TSO packet of the smallest MTU takes some 120
  for (WorldHostOptions& host : plan.hosts) {
    host.segment_bytes = kSegmentBytes[rng.below(kSegmentBytes.size())];
  }
  impair(plan, {.loss_ppm = draw(rng, 0, 10'000), .reorder_ppm = draw(rng, 0, 20'000)});
}

/// A wire that carries what TSO would cut, to receivers that may have fewer slots than that takes.
void make_super_wire(WorldPlan& plan, Rng& rng) {
  plan.link.checksums = io::sim::Checksums::kTrusted;
  plan.link.tso_bytes_max = draw(rng, 3'000, 65'000);
  plan.link.has_super_packets = true;
  plan.link.frames_max = 512;
  impair(plan, {.loss_ppm = draw(rng, 0, 10'000), .reorder_ppm = draw(rng, 0, 20'000)});
}

/// All dialogs begin at once. Handshakes beyond a backlog may be reset.
void make_storm(WorldPlan& plan, Rng& rng) {
  constexpr uint32_t kDialogs = 100;
  const bool is_beyond_backlogs = chance(rng, 50);
  for (WorldHostOptions& host : plan.hosts) {
    for (ClientOptions& client : host.clients) {
      client.backlog = static_cast<uint16_t>(is_beyond_backlogs ? draw(rng, 1, 16) : kDialogs);
    }
  }
  add_dialogs(plan, rng, {.count = kDialogs, .bytes_max = 300, .span = micros(100)});
  for (Dialog& dialog : plan.dialogs) dialog.is_clean = !is_beyond_backlogs;
  if (is_beyond_backlogs) watch_peers(plan);  // a device that fails loses resets
}

/// A third of the clients that are lent memory give it back late. It is drawn last, so everything
/// else of a seed is what it would be without.
void delay_releases(WorldPlan& plan, Rng& rng) {
  for (WorldHostOptions& host : plan.hosts) {
    for (ClientOptions& client : host.clients) {
      const bool is_late = chance(rng, 33);
      const Nanos pause = draw_micros(rng, 0, 20'000);
      if (is_late && client.is_lent && client.read_pause.value == 0) client.read_pause = pause;
    }
  }
}

struct NamedWorld {
  const char* name;
  void (*make)(WorldPlan&, Rng&);
};

constexpr auto kWorlds = std::to_array<NamedWorld>({
    {"hosts_short",
     [](WorldPlan& plan, Rng& rng) {
       add_dialogs(plan, rng, {.count = 200, .bytes_max = 400, .span = seconds(2)});
     }},
    {"hosts_rough",
     [](WorldPlan& plan, Rng& rng) {
       make_rough_weather(plan, rng);
       add_dialogs(plan, rng, {.count = 50, .bytes_max = 10'000});
     }},
    {"hosts_bursts",
     [](WorldPlan& plan, Rng& rng) {
       make_bursty_weather(plan, rng);
       add_dialogs(plan, rng, {.count = 50, .bytes_max = 10'000});
     }},
    {"hosts_bottleneck",
     [](WorldPlan& plan, Rng& rng) {
       make_bottleneck(plan, rng);
       add_dialogs(plan, rng, {.count = 6, .bytes_max = 600'000});
     }},
    {"hosts_small",
     [](WorldPlan& plan, Rng& rng) {
       make_small_hosts(plan, rng);
       impair(plan, {.loss_ppm = draw(rng, 0, 10'000), .reorder_ppm = draw(rng, 0, 50'000)});
       add_dialogs(plan, rng, {.count = 16, .bytes_max = 40'000});
     }},
    {"hosts_mtu",
     [](WorldPlan& plan, Rng& rng) {
       add_narrow_times(plan, rng, false);
       add_dialogs(plan, rng, {.count = 12, .bytes_max = 60'000});
     }},
    {"hosts_blackhole",
     [](WorldPlan& plan, Rng& rng) {
       add_narrow_times(plan, rng, true);
       add_dialogs(plan, rng, {.count = 12, .bytes_max = 60'000});
     }},
    {"hosts_partition",
     [](WorldPlan& plan, Rng& rng) {
       add_dialogs(plan, rng, {.count = 20, .bytes_max = 20'000});
       add_partitions(plan, rng);
     }},
    {"hosts_late", make_late_hosts},
    {"hosts_rings", make_small_rings},
    {"hosts_calm", make_calm},
    {"hosts_reuse", make_reuse},
    {"hosts_crash",
     [](WorldPlan& plan, Rng& rng) {
       make_rough_weather(plan, rng);
       add_dialogs(plan, rng, {.count = 40, .bytes_max = 30'000});
       add_crashes(plan, rng);
     }},
    {"hosts_rude",
     [](WorldPlan& plan, Rng& rng) {
       add_dialogs(plan, rng, {.count = 60, .bytes_max = 20'000});
       make_rude(plan, rng);
     }},
    {"hosts_storm", make_storm},
    {"hosts_snapshot",
     [](WorldPlan& plan, Rng& rng) {
       make_rough_weather(plan, rng);
       add_dialogs(plan, rng, {.count = 20, .bytes_max = 10'000});
       plan.replace_engine_ppm = draw(rng, 1'000, 300'000);
     }},
    {"hosts_upgrade",
     [](WorldPlan& plan, Rng& rng) {
       if (chance(rng, 50)) make_rough_weather(plan, rng);
       add_dialogs(plan, rng, {.count = draw(rng, 5, 40), .bytes_max = draw(rng, 1'000, 60'000)});
       if (chance(rng, 30)) make_rude(plan, rng);
       if (chance(rng, 20)) add_crashes(plan, rng);
       plan.may_be_unreachable = true;
       plan.upgrade_ppm = draw(rng, 100, 20'000);
     }},
    {"hosts_everything", make_everything},
    {"hosts_tso",
     [](WorldPlan& plan, Rng& rng) {
       make_cutting_ports(plan, rng);
       add_dialogs(plan, rng, {.count = 20, .bytes_max = 400'000});
     }},
    {"hosts_super",
     [](WorldPlan& plan, Rng& rng) {
       make_super_wire(plan, rng);
       add_dialogs(plan, rng, {.count = 20, .bytes_max = 400'000});
       if (chance(rng, 30)) make_rude(plan, rng);
     }},
});

}  // namespace

std::vector<std::string> world_names() {
  std::vector<std::string> names;
  for (const NamedWorld& world : kWorlds) names.emplace_back(world.name);
  return names;
}

std::optional<WorldPlan> make_world(const std::string& name, uint64_t seed) {
  const auto* found = std::ranges::find(kWorlds, name, &NamedWorld::name);
  if (found == kWorlds.end()) return std::nullopt;
  Rng rng(seed * 7919 + 29);
  WorldPlan plan = draw_world(seed, rng);
  found->make(plan, rng);
  delay_releases(plan, rng);
  return plan;
}

}  // namespace lyre::sim
