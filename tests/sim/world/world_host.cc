#include "tests/sim/world/world_host.h"

#include "stack/wire/ipv6.h"

namespace lyre::sim {
namespace {

constexpr uint32_t kFrameOverheadBytes = 64;

std::vector<InterfaceAddress> addresses_of(uint32_t host, uint32_t mtu_bytes) {
  std::vector<InterfaceAddress> out = {InterfaceAddress::of(address_of(host, false), 24)};
  if (mtu_bytes >= wire::kIpv6MtuBytesMin) out.push_back({address_of(host, true), 64});
  return out;
}

}  // namespace

WorldHost::WorldHost(io::sim::Link& link, int end, const WorldHostOptions& options, uint64_t seed,
                     Dialogs& dialogs)
    : end_(end),
      dialogs_(dialogs),
      memory_({.rx_slots = options.rx_slots,
               .frame_bytes = link.options().mtu_bytes + kFrameOverheadBytes,
               .tx_packets = options.tx_packets,
               .segment_bytes = options.segment_bytes}),
      tx_packets_(options.tx_packets),
      port_(link.add_queue(end, memory_), memory_),
      stats_(new channel::WorkerStats()) {
  const worker::PortBinding binding{
      .io = &port_,
      .addresses = addresses_of(static_cast<uint32_t>(end), link.options().mtu_bytes),
      .mtu_bytes = link.options().mtu_bytes};
  worker::WorkerConfig config;
  config.engine = {.connections_max = options.connections_max,
                   .sent_records_max = options.records_max,
                   .received_runs_max = options.records_max};
  config.connection = options.connection;
  config.listeners_max = 16;
  config.merge_received = options.merge_received;
  config.secret = {seed, ~seed};
  config.seed = seed;
  worker_ = std::make_unique<worker::Worker>(config, memory_, std::span(&binding, 1),
                                             std::span<const worker::RouteBinding>{},
                                             worker::StatsBinding{stats_.get(), {}});
  for (uint32_t i = 0; i < options.clients.size(); ++i) {
    seats_.push_back({.options = options.clients[i]});
    seats_[i].client = std::make_unique<Client>(*worker_, static_cast<uint32_t>(end), i,
                                                options.clients[i], memory_.rx_memory(), dialogs);
  }
}

size_t WorldHost::turn(Nanos now, Rng& rng, uint32_t lag_ppm) {
  port_.set_now(now);
  size_t work = 0;
  if (rng.chance_ppm(lag_ppm)) {
    ++work;  // the host was busy otherwise
  } else {
    work += worker_->poll_once(now);
  }
  take_replies();
  for (Seat& seat : seats_) {
    if (!seat.client || seat.is_leaving) continue;
    if (rng.chance_ppm(lag_ppm)) {
      ++work;
    } else {
      work += seat.client->step(now, rng);
    }
    if (failure_.empty()) failure_ = seat.client->failure();
  }
  return work;
}

Nanos WorldHost::next_deadline(Nanos now) const {
  Nanos first = worker_->next_deadline();
  for (const Seat& seat : seats_) {
    if (seat.client && !seat.is_leaving) first = earlier(first, seat.client->next_deadline(now));
  }
  return first;
}

void WorldHost::crash(uint32_t client) {
  Seat& seat = seats_[client];
  if (!seat.client || seat.is_leaving) return;
  seat.client->detach();
  seat.is_leaving = seat.comes_back = true;
}

void WorldHost::detach_all() {
  for (Seat& seat : seats_) {
    seat.comes_back = false;
    if (seat.client && !seat.is_leaving) seat.client->detach();
    seat.is_leaving = true;
  }
}

bool WorldHost::is_detached() const {
  for (const Seat& seat : seats_) {
    if (seat.client) return false;
  }
  return true;
}

bool WorldHost::is_idle() const {
  for (const Seat& seat : seats_) {
    if (seat.is_leaving || !seat.client || !seat.client->is_idle()) return false;
  }
  return true;
}

void WorldHost::take_replies() {
  worker::Reply reply;
  while (worker_->outbox().try_take(reply)) {
    if (reply.kind == worker::Reply::Kind::kDetached) {
      on_detached(reply.context);
    } else if (reply.kind == worker::Reply::Kind::kRegionAdded) {
      if (seats_[reply.context].client) seats_[reply.context].client->on_region_added();
    } else if (failure_.empty() && reply.kind != worker::Reply::Kind::kRegionRefused) {
      failure_ = std::string("a client was expelled: ") + reply.reason;
    }
  }
}

/// The client's memory may be freed only now.
void WorldHost::on_detached(uint32_t index) {
  Seat& seat = seats_[index];
  seat.client.reset();
  if (!seat.comes_back) return;
  seat.is_leaving = false;
  seat.client = std::make_unique<Client>(*worker_, static_cast<uint32_t>(end_), index, seat.options,
                                         memory_.rx_memory(), dialogs_);
}

std::string WorldHost::describe() {
  std::string text = "{" + std::to_string(worker_->connection_count()) + " connections, deadline " +
                     std::to_string(worker_->next_deadline().value);
  if (worker_->has_waiting_work()) text += ", worker has work";
  for (const Seat& seat : seats_) text += seat.client ? "; " + seat.client->describe() : "; none";
  for (size_t i = 0; i < static_cast<size_t>(Drop::kCount); ++i) {
    const uint64_t count = stats_->drops[i].get();
    if (count > 0) text += "; drop reason " + std::to_string(i) + ": " + std::to_string(count);
  }
  text += "; free packets " + std::to_string(memory_.tx_slots_free()) + " to send, " +
          std::to_string(memory_.rx_slots_free()) + " to receive";
  return text + "}";
}

std::string WorldHost::leftovers() {
  port_.reclaim();
  std::string text;
  const auto expect = [&](const char* what, uint64_t is, uint64_t should) {
    if (is != should) {
      text += std::string(what) + " " + std::to_string(is) + " instead of " +
              std::to_string(should) + "; ";
    }
  };
  expect("connections", worker_->connection_count(), 0);
  expect("at rest", worker_->is_at_rest(), true);
  // The worker may hold empty packets that it allocated in advance; its destructor releases them.
  worker_.reset();
  expect("free receive slots", memory_.rx_slots_free(), memory_.rx_slot_count());
  expect("free transmit packets", memory_.tx_slots_free(), tx_packets_);
  for (uint32_t i = 0; i < seats_.size(); ++i) expect("holds", memory_.region_holds(i), 0);
  return text;
}

}  // namespace lyre::sim
