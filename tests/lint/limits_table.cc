#include "tests/lint/limits_table.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "daemon/base/daemon_limits.h"
#include "daemon/config/config_keys.h"
#include "daemon/host/dead_telemetry.h"
#include "daemon/memory/foreign_closer.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/memory/mapping_protocol.h"
#include "nccl_adapter/abi/telemetry.h"
#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/channel/capture.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/path_mtu_cache.h"
#include "stack/link/neighbour_cache.h"
#include "stack/tcp/config.h"
#include "stack/tcp/core.h"
#include "stack/tcp/path_mtu.h"
#include "stack/tcp/scoreboard.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/routing/connection_router.h"
#include "stack/worker/routing/inter_worker_rings.h"
#include "stack/worker/tables/half_open_queue.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/tables/place_accounts.h"
#include "stack/worker/tables/receive_accounts.h"
#include "stack/worker/turn_limits.h"
#include "stack/worker/worker.h"
#include "tools/lyre/metrics/metric_places.h"
#include "tools/lyre/telemetry_file.h"

namespace lyre {
namespace {

using worker::ReceiveAccounts;

/// The default of "section.name".
std::string default_of(std::string_view key) {
  const auto keys = config_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [key](const Key& candidate) {
    return std::string(candidate.section) + "." + std::string(candidate.name) == key;
  });
  LYRE_CHECK(found != keys.end());
  return std::string(found->default_toml);
}

Limit configured(std::string_view what, std::string_view key, std::string_view at_limit) {
  return {.what = what, .value = default_of(key), .key = key, .at_limit = at_limit};
}

Limit fixed(std::string_view what, std::string value, std::string_view at_limit) {
  return {.what = what, .value = std::move(value), .key = "", .at_limit = at_limit};
}

std::string rate(uint32_t per_second, uint32_t at_once) {
  return std::to_string(per_second) + " a second, " + std::to_string(at_once) + " at once";
}

std::string seconds_of(Nanos time) { return std::to_string(time.value / 1'000'000'000) + " s"; }

std::string share(uint32_t divisor) { return "1/" + std::to_string(divisor); }

std::string per_free(const ReceiveAccounts::Limits& limits) {
  return std::to_string(limits.client) + " and " + std::to_string(limits.user) +
         " for each slot free above the reserve";
}

void add_telemetry(std::vector<Limit>& out) {
  out.push_back(fixed("telemetry files that lyre comms and lyre metrics read, of all and of a uid",
                      std::to_string(tools::kTelemetryFilesMax) + " and " +
                          std::to_string(tools::kTelemetryFilesPerUidMax),
                      "the next one is left out, and counted"));
  out.push_back(fixed("comms in them, of all and of a uid",
                      std::to_string(tools::kTelemetryCommsMax) + " and " +
                          std::to_string(tools::kTelemetryCommsPerUidMax),
                      "the next file is left out, and counted"));
  out.push_back(fixed("bytes of a telemetry file, and comms that it has room for",
                      std::to_string(nccl_abi::kTelemetryBytesMax) + " and " +
                          std::to_string(nccl_abi::kTelemetrySlotsMax),
                      "it is not read, and lyred does not remove a larger one"));
  out.push_back(fixed("comms of an attachment that its telemetry file shows",
                      std::to_string(nccl_abi::kTelemetrySlots),
                      "the others are not shown, and counted"));
  out.push_back(
      fixed("programs whose comms have metrics, and labels of clients, of all and of a uid",
            std::to_string(tools::kMetricNamesMax) + " and " +
                std::to_string(tools::kMetricNamesPerUidMax),
            "the others are added up as \"other\""));
  out.push_back(fixed("entries of /dev/shm/lyre among which lyred looks for files to remove",
                      std::to_string(kTelemetryEntriesMax), "the next sweep goes on behind them"));
}

void add_control_plane(std::vector<Limit>& out) {
  out.push_back(configured("contexts, of all clients", "clients.contexts_max",
                           "attach is refused with the key's name"));
  out.push_back(configured("contexts, of a uid", "clients.contexts_per_uid_max", "the same"));
  out.push_back(configured("contexts, of a domain", "domain.contexts_max", "the same"));
  out.push_back(fixed("connections of a control socket, of all and of a uid",
                      "as many as contexts, and " + std::to_string(kLookersMax) + " and " +
                          std::to_string(kLookersPerUidMax) + " more; " +
                          std::to_string(kOperatorConnections) +
                          " beyond all for root and the daemon's user",
                      "the next connection is refused"));
  out.push_back(fixed("descriptors of a uid or domain that are being closed",
                      std::to_string(ForeignCloser::kWaitingPerUserMax),
                      "its next connection is refused, except at the administrator's socket"));
  out.push_back(fixed("threads that close clients' descriptors, of all and of a uid or domain",
                      std::to_string(ForeignCloser::kThreadsMax) + " and 1",
                      "descriptors wait, and count"));
  out.push_back(fixed("time of such a connection that does not capture", seconds_of(kAttachTimeout),
                      "it is closed"));
  out.push_back(fixed("captures of a port, and captures that workers have not let go of",
                      "1 and " + std::to_string(worker::kCapturesMax), "lyre pcap is refused"));
  out.push_back(fixed("bytes of a capture on each worker",
                      std::to_string(channel::kCaptureRingBytes),
                      "packets are not captured, and counted"));
  add_telemetry(out);
  out.push_back(configured("log lines that clients of a uid cause in a minute at a control socket",
                           "clients.log_lines_per_minute_max",
                           "left out, and counted in one line"));
}

void add_memory(std::vector<Limit>& out) {
  out.push_back(configured("bytes of an arena", "clients.arena_bytes_max", "attach is refused"));
  out.push_back(configured("bytes of all arenas, rings and copy areas of a uid",
                           "clients.arena_bytes_per_uid_max",
                           "attach is refused with the key's name"));
  out.push_back(configured("registered bytes of a context", "clients.registered_bytes_max",
                           "the memory is not registered; what is sent of it is copied"));
  out.push_back(configured("registered bytes of a uid, holes of its files included",
                           "clients.registered_bytes_per_uid_max", "the same"));
  out.push_back(
      fixed("regions of a context", std::to_string(channel::kRegionsPerContextMax), "the same"));
  out.push_back(configured("regions of a uid", "clients.regions_per_uid_max", "the same"));
  out.push_back(fixed("requests at the memory helper at a time, of all and of a uid or domain",
                      std::to_string(kMappingRequestsMax) + " and " +
                          std::to_string(MappingOpener::kRequestsOfUserMax),
                      "the next one waits; a free place goes to who has fewest there"));
  out.push_back(fixed("time of such a request", std::to_string(kMappingRequestSecondsMax) + " s",
                      "the memory is not registered"));
  out.push_back(fixed("bytes of a region that are mapped for NICs at once, by the control thread",
                      std::to_string(kMapAtOnceBytesMax),
                      "a thread maps it, which serves users in turn"));
  out.push_back(fixed("bytes that a worker copied for a context and that it has not read",
                      std::to_string(kCopyBytesPerWorkerMax) + ", and " +
                          std::to_string(kCopyBytesPerContextMax) + " of all workers",
                      "its client is told of the next ones when it has read"));
  out.push_back(fixed("time that an upgrade waits for memory that clients register",
                      seconds_of(kUpgradeRegistrations), "the upgrade fails"));
  out.push_back(fixed("time that its new process waits for the offer of the old one",
                      seconds_of(kUpgradePatience), "the same"));
  out.push_back(
      configured("registered bytes of a domain", "domain.registered_bytes_max", "the same"));
}

void add_receive_pool(std::vector<Limit>& out) {
  out.push_back(
      configured("receive slots of a worker", "memory.rx_slots", "the shares below are of these"));
  out.push_back(fixed("receive slots that a client, and a uid, holds",
                      per_free(ReceiveAccounts::kShare),
                      "segments are dropped, except the bytes that a reader waits for. What came "
                      "out of order is released"));
  out.push_back(fixed("the same, for bytes that a reader waits for",
                      per_free(ReceiveAccounts::kOverdraft), "segments are dropped"));
  const std::string floor = share(ReceiveAccounts::kFloorShare) + " of the pool; of more than " +
                            std::to_string(ReceiveAccounts::kFloorShare / 2) +
                            " each an equal part of half the pool";
  out.push_back(
      fixed("receive slots that a uid may hold in any case", floor, "it has the limits above"));
  out.push_back(fixed(
      "the same of a client",
      floor + ", while its uid has at most " + std::to_string(ReceiveAccounts::kFloorsOfUser) +
          " for each slot free above the reserve and each client of the uid that has slots is "
          "left " +
          std::to_string(ReceiveAccounts::kFloorsLeft) + " times as many as this one has",
      "the same"));
  out.push_back(fixed("receive slots that are kept free",
                      share(ReceiveAccounts::kReserveShare) + " of the pool",
                      "below five eighths of them unread sessions are reset, of the uid with most "
                      "slots for its weight the client with most; after a second it is "
                      "disconnected"));
  out.push_back(configured("receive buffer of a session", "tcp.receive_buffer_bytes",
                           "its window is closed"));
}

void add_sessions(std::vector<Limit>& out) {
  out.push_back(
      configured("connections of a worker", "tcp.connections_max",
                 "the oldest TIME-WAIT ends, then the oldest session that closes without a "
                 "client, then the oldest handshake; an open fails"));
  out.push_back(fixed("handshakes that peers began, to all listeners",
                      share(worker::kHalfOpenShare) + " of the connections",
                      "SYN cookies, or the oldest one of the listener with most ends"));
  out.push_back(
      fixed("handshakes under way at a listener, with those that its client has not read "
            "of, on a worker",
            "backlog + " + std::to_string(worker::kBeyondBacklog),
            "SYN cookies; without them a SYN is dropped"));
  out.push_back(fixed("complete handshakes that a listener's client has not read of, on a worker",
                      "backlog + " + std::to_string(worker::kBeyondBacklog),
                      "SYNs are dropped; a peer that completes one, by a cookie or not, is reset"));
  out.push_back(configured("connections of a client, on a worker", "clients.connections_max",
                           "an open fails, a SYN is dropped. 0: 3/4 of tcp.connections_max"));
  out.push_back(configured("the same, of a uid", "clients.connections_per_uid_max",
                           "the same. 0: 7/8 of tcp.connections_max"));
  out.push_back(
      configured("the same, of a domain", "domain.connections_max", "the same. 0: that of a uid"));
  out.push_back(fixed("listeners", std::to_string(worker::WorkerConfig{}.listeners_max),
                      "a client may have as many as are free: the next one fails"));
  out.push_back(configured("listeners of a client", "clients.listeners_max", "the next one fails"));
  out.push_back(configured("listeners of a uid", "clients.listeners_per_uid_max", "the same"));
  out.push_back(
      configured("listeners of a domain", "domain.listeners_max", "the same. 0: those of a uid"));
}

void add_life_of_sessions(std::vector<Limit>& out) {
  out.push_back(fixed("opens that a worker takes in a turn, of all clients and of one",
                      std::to_string(worker::kOpensPerPollMax) + " and " +
                          std::to_string(worker::kOpensPerContextMax),
                      "the next turn takes them"));
  out.push_back(fixed("local ports that an open tries", std::to_string(worker::kPortsTriedMax),
                      "it fails: the port is in use"));
  out.push_back(fixed("sessions of a uid for which the entries of their neighbours are kept",
                      share(worker::kNeighbourShare) + " of a port's neighbours, on each worker",
                      "an entry that nobody keeps gives way to a new one, and is asked for again"));
  out.push_back(fixed("records of sent segments that a connection has",
                      share(tcp::kShareOfFreeRecords) + " of the free ones",
                      "it sends nothing new, and a SACK block inside a segment is not marked"));
  out.push_back(fixed("time for the acknowledgement of what a client that is gone had sent",
                      seconds_of(worker::kLingerMax), "its sessions are reset"));
  out.push_back(fixed("time without progress of a session that its client closed",
                      seconds_of(tcp::kOrphanWaitMin),
                      "it is reset, also when its peer answers that it has no room"));
  out.push_back(fixed("time in which the peer of such a session closes its end",
                      std::to_string(tcp::ConnectionConfig{}.orphan_timeout_ms / 1000) + " s",
                      "the session ends"));
  out.push_back(fixed("unfinished sends of a session, and of a client",
                      std::to_string(channel::kSendsOutstandingMax) + " and " +
                          std::to_string(channel::kSendsPerContextMax),
                      "liblyre waits; a client that submits more is disconnected"));
}

void add_timeouts(std::vector<Limit>& out) {
  out.push_back(
      configured("milliseconds that an open may take", "tcp.connect_timeout_ms", "it fails"));
  out.push_back(configured("milliseconds that sent bytes may stay unacknowledged",
                           "tcp.user_timeout_ms", "the session ends with an error"));
  out.push_back(configured("seconds that the handshake of a peer may take",
                           "tcp.syn_received_timeout_s", "it is forgotten"));
  out.push_back(fixed("bytes of one send", std::to_string(channel::kSendBytesMax),
                      "liblyre sends several; a client that submits more is disconnected"));
  out.push_back(
      fixed("received payloads of a worker that wait in queues of sessions",
            std::to_string(tcp::EngineConfig{}.received_runs_max) + " and one for each connection",
            "segments out of order are dropped"));
}

/// What packets on their way inside of the daemon, and what it learned of others, may take.
void add_routing(std::vector<Limit>& out) {
  out.push_back(fixed("packets of a worker to this host that wait",
                      std::to_string(worker::kLoopPacketsMax), "the next one is dropped"));
  out.push_back(fixed("messages that wait between two workers, each way",
                      std::to_string(worker::kWorkerMessagesMax), "packets are dropped"));
  out.push_back(fixed("packets that a worker passed to others and has not got back",
                      std::to_string(worker::kPacketsAwayMax), "packets are dropped"));
  out.push_back(fixed("those of them that went to one other worker, with three workers or more",
                      std::to_string(worker::kPacketsAwayAtOneMax), "the same"));
  out.push_back(fixed("connections that a worker keeps claims of, where there are several",
                      std::to_string(worker::kClaimsPerConnection) + " for each of its own",
                      "a packet that arrives elsewhere is dropped"));
  const auto mtu_everywhere = [](const IpAddress& peer) {
    return std::to_string(tcp::mss_everywhere(peer) + wire::ip_and_tcp_header_bytes(peer));
  };
  out.push_back(
      fixed("least path MTU that an ICMP error can claim",
            mtu_everywhere(IpAddress::v4(1)) + " (IPv6: " + mtu_everywhere(IpAddress{}) + ")",
            "the error is ignored"));
  out.push_back(
      fixed("destinations of which a worker knows the path MTU",
            std::to_string(ip::PathMtuCache::kPlaces) + ", for " + seconds_of(ip::kPathMtuLife),
            "a new one replaces another one"));
}

void add_turns(std::vector<Limit>& out) {
  out.push_back(fixed("sessions that a turn tells clients about, of all clients",
                      std::to_string(worker::kAnnouncedPerPollMax),
                      "the next turn begins with the next client"));
  out.push_back(fixed("the same, of a client whose ring is full, in a row",
                      std::to_string(worker::kUntoldInARowMax), "the next turn"));
  out.push_back(fixed(
      "failed connects without a session, on a worker, of which a client is not told while its "
      "ring is full",
      std::to_string(worker::kFailedOpensPerContextMax), "the client is disconnected"));
  out.push_back(fixed("submissions that a turn takes of a client",
                      std::to_string(worker::kSubmissionsPerContextMax), "the next turn"));
  out.push_back(fixed("the same, of all clients", std::to_string(worker::kSubmissionsPerPollMax),
                      "the next turn begins with the next client"));
  out.push_back(
      fixed("RSTs of a worker for segments of no connection, to a uid, and to the network",
            rate(worker::kResetsPerSecond, worker::kResetBurst), "no answer, and counted"));
  out.push_back(fixed("RSTs of a worker for SYN cookies that find no place",
                      rate(worker::kResetsPerSecond, worker::kResetBurst),
                      "no answer, and counted"));
  out.push_back(fixed("challenge ACKs of a connection",
                      std::to_string(tcp::kChallengeAcksMin) + " to " +
                          std::to_string(tcp::kChallengeAcksMin + tcp::kChallengeAcksSpread - 1) +
                          " a second",
                      "no answer"));
  out.push_back(fixed("answers of a connection to window probes and keep-alives",
                      std::to_string(tcp::kProbeAnswersMax) + " a second", "no answer"));
  out.push_back(fixed("questions of all workers for neighbours, by ARP or NDP, through a port",
                      rate(link::kSolicitsPerSecondMax, link::kSolicitsAtOnceMax),
                      "they are asked later"));
  out.push_back(fixed("urgent ones, for neighbours that had a MAC or that a uid wants, besides",
                      std::to_string(link::kSolicitsKeptForUrgent) + " at once",
                      "they are asked before all others"));
  out.push_back(fixed("neighbours that a uid can make urgent, on all workers",
                      rate(link::kUrgentPerSecond, link::kUrgentAtOnce),
                      "the others are asked for when the rate is not used up"));
  out.push_back(configured("neighbours of a port that a worker knows", "port.neighbours",
                           "the one wanted least recently that no session uses is forgotten. 0: by "
                           "the size of the port's networks"));
  out.push_back(
      fixed("answers to pings", rate(ip::kEchoRepliesPerSecond, ip::kEchoReplyBurst), "no answer"));
  out.push_back(
      fixed("ICMP errors", rate(ip::kIcmpErrorsPerSecond, ip::kIcmpErrorBurst), "not sent"));
}

}  // namespace

std::vector<Limit> limits() {
  std::vector<Limit> out;
  add_control_plane(out);
  add_memory(out);
  add_receive_pool(out);
  add_sessions(out);
  add_life_of_sessions(out);
  add_timeouts(out);
  add_routing(out);
  add_turns(out);
  return out;
}

}  // namespace lyre
