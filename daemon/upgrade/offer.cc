#include "daemon/upgrade/offer.h"

#include <cerrno>
#include <utility>

namespace lyre {
namespace {

Error not_right() { return {EPROTO, "the records of the running daemon are not right"}; }

/// Whether a daemon that reads `newest` can take what another one writes.
bool are_read(const KindVersions& least, const KindVersions& newest) {
  for (size_t kind = 0; kind < least.size(); ++kind) {
    if (least[kind] > (kind < newest.size() ? newest[kind] : 0)) return false;
  }
  return true;
}

/// The first record of an offer.
Result<DaemonRecord> take_daemon(record::Reader& in, const KindVersions& newest) {
  DaemonRecord daemon;
  const auto list = [&](record::FieldReader& fields) { list_daemon(fields, daemon); };
  if (!in.take_known(record::Kind::kDaemon, kOfferVersion, list)) return not_right();
  if (are_read(daemon.least_versions, newest)) return daemon;
  return Error{EPROTONOSUPPORT, "the running daemon is release " + daemon.release +
                                    ", which writes records that this release " LYRE_VERSION
                                    " does not read: restart it"};
}

Error differs(const std::string& what) {
  return {EINVAL, what + ": this needs a restart of the daemon"};
}

/// One domain without a [domain] section has the daemon's own socket.
std::vector<SocketRecord> sockets_of(const Config& config) {
  std::vector<SocketRecord> out;
  for (const DomainConfig& domain : config.domains) {
    out.push_back({.path = domain.socket_path, .domain = domain.name});
  }
  if (config.has_domains) out.push_back({.path = config.socket_path, .domain = {}});
  return out;
}

Status check_port(const PortConfig& config, const PortRecord& record) {
  if (config.device == record.device) return Ok{};
  return differs("port '" + config.name + "' is " + config.device +
                 " in the configuration, and was " + record.device);
}

Status check_counts(const Config& config, const DaemonRecord& daemon, size_t sockets) {
  if (daemon.worker_count != config.cores.size()) {
    const std::string running = std::to_string(daemon.worker_count);
    const bool is_auto = config.has_chosen_cores;
    Error error = differs((is_auto ? "workers.cores = \"auto\" chose " : "the configuration has ") +
                          std::to_string(config.cores.size()) +
                          " workers, the running daemon has " + running);
    if (is_auto) error.text += ", or a list of " + running + " cores there";
    return error;
  }
  if (daemon.port_count != config.ports.size()) {
    return differs("the configuration has " + std::to_string(config.ports.size()) +
                   " ports, the running daemon " + std::to_string(daemon.port_count));
  }
  if (daemon.socket_count != sockets) return differs("the configuration has other domains");
  return Ok{};
}

}  // namespace

void write_offer(const Config& config, std::span<const PortRecord> ports,
                 bool uses_physical_addresses, const KindVersions& least, record::Writer& out) {
  const std::vector<SocketRecord> sockets = sockets_of(config);
  const DaemonRecord daemon{.release = LYRE_VERSION,
                            .worker_count = static_cast<uint32_t>(config.cores.size()),
                            .port_count = static_cast<uint32_t>(ports.size()),
                            .socket_count = static_cast<uint32_t>(sockets.size()),
                            .uses_physical_addresses = uses_physical_addresses,
                            .least_versions = least};
  out.add(record::Kind::kDaemon, kOfferVersion,
          [&](record::FieldWriter& fields) { list_daemon(fields, daemon); });
  for (const PortRecord& port : ports) {
    out.add(record::Kind::kPort, kOfferVersion,
            [&](record::FieldWriter& fields) { list_port(fields, port); });
  }
  for (const SocketRecord& socket : sockets) {
    out.add(record::Kind::kSocket, kOfferVersion,
            [&](record::FieldWriter& fields) { list_socket(fields, socket); });
  }
}

Result<uint32_t> offered_workers(std::span<const uint8_t> bytes, const KindVersions& newest) {
  record::Reader in(bytes);
  auto daemon = take_daemon(in, newest);
  if (!daemon.ok()) return daemon.error();
  return daemon->worker_count;
}

Result<Offer> read_offer(const Config& config, std::span<const uint8_t> bytes,
                         const KindVersions& newest) {
  record::Reader in(bytes);
  auto daemon = take_daemon(in, newest);
  if (!daemon.ok()) return daemon.error();
  const std::vector<SocketRecord> sockets = sockets_of(config);
  if (Status same = check_counts(config, *daemon, sockets.size()); !same.ok()) return same.error();
  Offer offer{.release = daemon->release,
              .ports = {},
              .uses_physical_addresses = daemon->uses_physical_addresses};
  for (const PortConfig& own : config.ports) {
    PortRecord port;
    const auto list_it = [&](record::FieldReader& fields) { list_port(fields, port); };
    if (!in.take_known(record::Kind::kPort, kOfferVersion, list_it)) return not_right();
    if (Status same = check_port(own, port); !same.ok()) return same.error();
    offer.ports.push_back(std::move(port));
  }
  for (const SocketRecord& own : sockets) {
    SocketRecord socket;
    const auto list_it = [&](record::FieldReader& fields) { list_socket(fields, socket); };
    if (!in.take_known(record::Kind::kSocket, kOfferVersion, list_it)) return not_right();
    if (socket.path != own.path || socket.domain != own.domain) {
      return differs("the control socket " + socket.path + " of the running daemon is " + own.path +
                     " in the configuration, or belongs to another domain");
    }
  }
  return offer;
}

void write_prepared(const KindVersions& newest, record::Writer& out) {
  const PreparedRecord prepared{.release = LYRE_VERSION, .newest_versions = newest};
  out.add(record::Kind::kPrepared, kOfferVersion,
          [&](record::FieldWriter& fields) { list_prepared(fields, prepared); });
}

Result<std::string> read_prepared(std::span<const uint8_t> bytes, const KindVersions& least) {
  record::Reader in(bytes);
  PreparedRecord prepared;
  const auto list = [&](record::FieldReader& fields) { list_prepared(fields, prepared); };
  if (!in.take_known(record::Kind::kPrepared, kOfferVersion, list)) {
    return Error{EPROTO, "what the new process says of itself is not right"};
  }
  if (are_read(least, prepared.newest_versions)) return prepared.release;
  return Error{EPROTONOSUPPORT,
               "the new process is release " + prepared.release +
                   ", which does not read the records that this release " LYRE_VERSION
                   " writes: restart the daemon"};
}

}  // namespace lyre
