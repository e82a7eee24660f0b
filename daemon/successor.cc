#include "daemon/successor.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/handover_versions.h"
#include "daemon/protocol/handover_records.h"
#include "daemon/upgrade/offer.h"

namespace lyre {
namespace {

Error not_right(const std::string& what) {
  return {EPROTO, "what the running daemon left is not right: " + what};
}

}  // namespace

Result<uint32_t> Successor::await_offer() {
  auto message = link_.expect(UpgradeStep::kOffer, kUpgradePatience);
  if (!message.ok()) return message.error();
  offer_ = std::move(message->payload);
  return offered_workers(offer_, handover_versions());
}

Status Successor::meet(const Config& config) {
  auto offer = read_offer(config, offer_, handover_versions());
  if (!offer.ok()) return offer.error();
  heritage_.ports = std::move(offer->ports);
  nic_owner_.uses_physical_addresses = offer->uses_physical_addresses;
  spdlog::info("taking over from release {}", offer->release);
  return Ok{};
}

Status Successor::await_ports() {
  record::Writer prepared;
  write_prepared(handover_versions(), prepared);
  if (Status said = link_.send(UpgradeStep::kPrepared, prepared.bytes()); !said.ok()) return said;
  auto state = link_.receive_state(kUpgradePreparation);  // it waits for its clients
  if (!state.ok()) return state.error();
  stopped_at_ = monotonic_now();
  state_ = std::move(*state);
  record::Reader in(state_.records());
  const auto list = [this](record::FieldReader& fields) { list_registry(fields, registry_); };
  if (!in.take(record::Kind::kRegistry, kDaemonHandoverVersion, list)) {
    return not_right("its clients");
  }
  heritage_.secret = registry_.secret;
  heritage_.verified_addresses = registry_.verified_addresses;
  const auto free = link_.expect(UpgradeStep::kPortsClosed, kUpgradePortsClosed);
  return free.ok() ? Status(Ok{}) : free.error();
}

Status Successor::take_over(Assembly& parts) {
  record::Reader in(state_.records());
  const auto list = [this](record::FieldReader& fields) { list_registry(fields, registry_); };
  if (!in.take(record::Kind::kRegistry, kDaemonHandoverVersion, list)) {
    return not_right("its clients");
  }
  if (registry_.has_helper) helper_ = state_.descriptors.take();
  for (size_t i = 0; i < parts.control().count(); ++i) {
    listeners_.push_back(state_.descriptors.take());
  }
  Status taken = parts.registry().take_over(registry_, parts.rules(), in, state_.descriptors);
  for (uint32_t i = 0; taken.ok() && i < registry_.attached_count; ++i) {
    taken = take_connection(parts, in);
  }
  if (taken.ok() && registry_.attached_count != parts.registry().attached_count()) {
    return not_right("a client has no connection");
  }
  if (taken.ok()) taken = take_workers(parts, in);
  if (taken.ok()) report_standstill(parts);
  return taken;
}

Status Successor::take_connection(Assembly& parts, record::Reader& in) {
  AttachedRecord record;
  const auto list = [&](record::FieldReader& fields) { list_attached(fields, record); };
  if (!in.take(record::Kind::kAttached, kDaemonHandoverVersion, list) ||
      record.socket >= parts.control().count() || !parts.registry().is_attached(record.context)) {
    return not_right("a client's connection");
  }
  if (!channel::kControlVersions.has(record.control_version)) {
    return Error{EPROTONOSUPPORT, "a client speaks version " +
                                      std::to_string(record.control_version) +
                                      " of the control socket, which this daemon does not"};
  }
  Connection& taken = connections_.emplace_back();
  taken.socket = record.socket;
  taken.connection.socket = state_.descriptors.take();
  if (record.has_process) taken.connection.process = state_.descriptors.take();
  taken.connection.context = record.context;
  taken.connection.label = record.label;
  taken.connection.control_version = record.control_version;
  if (!taken.connection.socket.is_open()) return not_right("a client's connection");
  return Ok{};
}

Status Successor::take_workers(Assembly& parts, record::Reader& in) {
  const uint32_t count = parts.threads().count();
  for (uint32_t i = 0; i < count; ++i) {
    if (!parts.worker(i).take_over(parts.registry().handover_commands(i), in, monotonic_now())) {
      return Error{EPROTO, "the sessions of worker " + std::to_string(i) +
                               " do not fit into this daemon: " + parts.worker(i).refusal()};
    }
    if (const uint32_t lost = parts.worker(i).sessions_lost(); lost > 0) {
      spdlog::warn("worker {}: {} sessions could not be taken over, and ended", i, lost);
    }
  }
  if (!in.is_at_end()) return not_right("there is more than was told");
  // In turns: the rings between workers have room for some claims at a time.
  for (uint32_t done = 0; done < count;) {
    done = 0;
    for (uint32_t i = 0; i < count; ++i) done += parts.worker(i).try_claim_all() ? 1 : 0;
  }
  return Ok{};
}

/// The pause may be longer than the timeout after which a session is given up. The time until the
/// first turn is not counted twice: threads, which report it, start later.
void Successor::report_standstill(Assembly& parts) const {
  const Nanos stood_still = monotonic_now() - stopped_at_;
  for (uint32_t i = 0; i < parts.threads().count(); ++i) {
    parts.worker(i).on_standstill(stood_still, stood_still);
  }
}

Status Successor::watch_sockets(Assembly& parts, MappingOpener& mappings) {
  if (helper_.is_open()) {
    Status used = mappings.use(MappingHelperProcess(std::move(helper_)));
    if (!used.ok()) return used;
  }
  for (size_t i = 0; i < listeners_.size(); ++i) {
    Status adopted = parts.control()[i].adopt(std::move(listeners_[i]));
    if (!adopted.ok()) return adopted;
  }
  for (Connection& each : connections_) {
    Status adopted = parts.control()[each.socket].adopt(each.connection);
    if (!adopted.ok()) return adopted;
  }
  return Ok{};
}

Status Successor::commit() { return link_.send(UpgradeStep::kTakenOver); }

void Successor::go_on(Assembly& parts) {
  for (uint32_t i = 0; i < parts.control().count(); ++i) parts.control()[i].go_on();
  for (Connection& each : connections_) {
    parts.control()[each.socket].go_on(std::move(each.connection));
  }
  state_ = {};
  spdlog::info("took over {} client(s)", connections_.size());
}

}  // namespace lyre
