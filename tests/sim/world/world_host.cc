#include "tests/sim/world/world_host.h"

#include <optional>
#include <utility>

#include "stack/base/drop_reasons.h"
#include "stack/wire/ipv6.h"

namespace lyre::sim {
namespace {

constexpr uint32_t kFrameOverheadBytes = 64;
constexpr uint32_t kRepeatedAckPpm = 50'000;  // of the turns

std::vector<InterfaceAddress> addresses_of(uint32_t host, uint32_t mtu_bytes) {
  std::vector<InterfaceAddress> out = {InterfaceAddress::of(address_of(host, false), 24)};
  if (mtu_bytes >= wire::kIpv6MtuBytesMin) out.push_back({address_of(host, true), 64});
  return out;
}

std::vector<std::unique_ptr<io::sim::Memory>> first_of(std::unique_ptr<io::sim::Memory> memory) {
  std::vector<std::unique_ptr<io::sim::Memory>> memories;
  memories.push_back(std::move(memory));
  return memories;
}

}  // namespace

WorldHost::WorldHost(io::sim::Link& link, int end, const WorldHostOptions& options, uint64_t seed,
                     Dialogs& dialogs)
    : link_(link),
      end_(end),
      options_(options),
      seed_(seed),
      dialogs_(dialogs),
      memories_(first_of(make_memory())),
      port_(link.add_queue(end, *memories_.back()), *memories_.back()),
      stats_(new channel::WorkerStats()),
      worker_(make_worker({})) {
  for (uint32_t i = 0; i < options.clients.size(); ++i) {
    seats_.push_back({.options = options.clients[i]});
    seats_[i].client =
        std::make_unique<Client>(*worker_, static_cast<uint32_t>(end), i, options.clients[i],
                                 memories_.back()->rx_memory(), dialogs);
  }
}

std::unique_ptr<io::sim::Memory> WorldHost::make_memory() const {
  return std::make_unique<io::sim::Memory>(
      io::sim::MemoryOptions{.rx_slots = options_.rx_slots,
                             .frame_bytes = link_.options().mtu_bytes + kFrameOverheadBytes,
                             .tx_packets = options_.tx_packets,
                             .segment_bytes = options_.segment_bytes});
}

/// `verified`: what its predecessor has used of the addresses.
std::unique_ptr<worker::Worker> WorldHost::make_worker(const std::vector<IpAddress>& verified) {
  const worker::PortBinding binding{
      .io = &port_,
      .addresses = addresses_of(static_cast<uint32_t>(end_), link_.options().mtu_bytes),
      .verified_addresses = verified,
      .mtu_bytes = link_.options().mtu_bytes};
  worker::WorkerConfig config;
  config.engine = {.connections_max = options_.connections_max,
                   .sent_records_max = options_.records_max,
                   .received_runs_max = options_.records_max};
  config.connection = options_.connection;
  config.listeners_max = 16;
  if (options_.ephemeral_ports > 0) {
    config.ephemeral_port_first = kFirstDialPort;
    config.ephemeral_port_last =
        static_cast<uint16_t>(kFirstDialPort + options_.ephemeral_ports - 1);
  }
  config.merge_received = options_.merge_received;
  config.secret = {seed_, ~seed_};
  config.seed = seed_;
  return std::make_unique<worker::Worker>(config, *memories_.back(), std::span(&binding, 1),
                                          std::span<const worker::RouteBinding>{},
                                          worker::StatsBinding{stats_.get(), {}});
}

bool WorldHost::try_upgrade(Nanos now) {
  if (!worker_->inbox().is_empty()) return false;
  record::Writer records;
  worker_->write_handover(records);
  const std::vector<IpAddress> verified = worker_->verified_addresses(0);
  worker_.reset();
  link_.close_driver(end_);
  memories_.push_back(make_memory());
  io::sim::Memory* const memories[] = {memories_.back().get()};
  link_.bring_back(end_, memories);
  port_.move_to(*memories_.back());
  past_ = counts();
  stats_ = std::make_unique<channel::WorkerStats>();
  worker_ = make_worker(verified);
  std::vector<worker::Command> clients;
  for (Seat& seat : seats_) {
    if (!seat.client) continue;
    seat.client->describe_memory(clients);
    seat.client->move_to(*worker_);
  }
  record::Reader in(records.bytes());
  const bool is_good =
      worker_->take_over(clients, in, now) && worker_->try_claim_all() && in.is_at_end();
  if (!is_good && failure_.empty()) failure_ = "the records of a worker were not taken";
  return true;
}

void WorldHost::stand_still(Nanos now, Nanos until, bool is_asleep) {
  if (!is_asleep && !stands_still(now)) {
    turned_at_ = now;  // a thread that polls has a turn all the time
    standstills_.on_sleep(Nanos{0});
  }
  still_until_ = later(still_until_, until);
}

/// As WorkerThreads::Thread::note_standstill() of the daemon.
void WorldHost::note_standstill(Nanos passed) {
  const std::optional<Standstills::Told> told = standstills_.on_turn(passed);
  if (!told) return;
  worker_->on_standstill(told->all, told->pause);
  ++past_.standstills;
}

size_t WorldHost::poll_worker(Nanos now) {
  note_standstill(now - std::exchange(turned_at_, now));
  const size_t work = worker_->poll_once(now);
  if (work == 0) standstills_.on_sleep(later(worker_->next_deadline() - now, Nanos{0}));
  return work;
}

size_t WorldHost::turn(Nanos now, Rng& rng, uint32_t lag_ppm) {
  if (stands_still(now)) return 0;
  port_.set_now(now);
  size_t work = 0;
  if (rng.chance_ppm(kRepeatedAckPpm)) worker_->repeat_an_ack();
  if (rng.chance_ppm(lag_ppm)) {
    ++work;  // the host was busy otherwise
  } else {
    work += poll_worker(now);
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
  if (stands_still(now)) return still_until_;
  Nanos first = worker_->next_deadline();
  for (const Seat& seat : seats_) {
    if (seat.client && !seat.is_leaving) first = earlier(first, seat.client->next_deadline(now));
  }
  return first;
}

void WorldHost::crash(uint32_t client) {
  Seat& seat = seats_[client];
  if (!seat.client || seat.is_leaving) return;
  leave(seat);
  seat.comes_back = true;
}

void WorldHost::leave(Seat& seat) {
  seat.client->detach();
  seat.is_leaving = true;
  if (failure_.empty()) failure_ = seat.client->failure();
}

void WorldHost::detach_all() {
  for (Seat& seat : seats_) {
    seat.comes_back = false;
    if (seat.client && !seat.is_leaving) leave(seat);
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
                                         memories_.back()->rx_memory(), dialogs_);
}

HostCounts WorldHost::counts() const {
  HostCounts all = past_;
  all.timeouts += stats_->tcp_timeouts.get();
  all.probes_in += stats_->drops[static_cast<size_t>(Drop::kTcpOutOfWindow)].get();
  all.retransmitted_bytes += stats_->tcp_payload_retransmitted.get();
  all.frames_missed = port_.counters().rx_missed;
  return all;
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
  text += "; free packets " + std::to_string(memories_.back()->tx_slots_free()) + " to send, " +
          std::to_string(memories_.back()->rx_slots_free()) + " to receive";
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
  expect("free receive slots", memories_.back()->rx_slots_free(),
         memories_.back()->rx_slot_count());
  expect("free transmit packets", memories_.back()->tx_slots_free(), options_.tx_packets);
  for (uint32_t i = 0; i < seats_.size(); ++i)
    expect("holds", memories_.back()->region_holds(i), 0);
  return text;
}

}  // namespace lyre::sim
