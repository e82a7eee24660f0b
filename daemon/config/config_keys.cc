#include "daemon/config/config_keys.h"

#include <sys/un.h>

#include "stack/channel/abi.h"
#include "stack/worker/inbox.h"

namespace lyre {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kGiB = 1024 * kMiB;
constexpr int64_t kSocketPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

bool flag(const KeyValue& value) { return std::get<bool>(value); }
int64_t number(const KeyValue& value) { return std::get<int64_t>(value); }
uint32_t small(const KeyValue& value) { return static_cast<uint32_t>(number(value)); }
uint16_t tiny(const KeyValue& value) { return static_cast<uint16_t>(number(value)); }
const std::string& text(const KeyValue& value) { return std::get<std::string>(value); }
template <typename Choice>
Choice choice(const KeyValue& value) {
  return static_cast<Choice>(number(value));
}
tcp::CongestionAlgorithm congestion(const KeyValue& value) {
  static constexpr tcp::CongestionAlgorithm kInOrder[] = {tcp::CongestionAlgorithm::kCubic,
                                                          tcp::CongestionAlgorithm::kNewReno,
                                                          tcp::CongestionAlgorithm::kDctcp};
  return kInOrder[number(value)];
}
tcp::EcnMode ecn(const KeyValue& value) {
  static constexpr tcp::EcnMode kInOrder[] = {tcp::EcnMode::kAccept, tcp::EcnMode::kOn,
                                              tcp::EcnMode::kOff};
  return kInOrder[number(value)];
}

// clang-format off
constexpr Key kKeys[] = {
  {"daemon", "name", KeyType::kName, "\"lyre\"", 1, 32, "",
   "Name of this daemon in `lyre status`. It also separates the DPDK files of several daemons.",
   [](Config& c, const KeyValue& v) { c.name = text(v); }},
  {"daemon", "socket", KeyType::kPath, "\"/run/lyre/lyred.sock\"", 2, kSocketPathBytesMax, "",
   "The control socket. Every process that may open it may use this stack. With [[domain]] "
   "sections it is the administrator's: mode 0600, shows everything, and serves no client.",
   [](Config& c, const KeyValue& v) { c.socket_path = text(v); }},
  {"daemon", "socket_group", KeyType::kText, "\"lyre-clients\"", 0, 32, "",
   "Group of the control socket: its members may use this stack. \"\" keeps the daemon's own "
   "group. Not used with [[domain]].",
   [](Config& c, const KeyValue& v) { c.socket_group = text(v); }},
  {"daemon", "socket_mode", KeyType::kMode, "\"0660\"", 0, 0777, "",
   "Permissions of the control socket. With [[domain]] sections it has 0600 whatever is said here; "
   "another value than that and the default is an error.",
   [](Config& c, const KeyValue& v) { c.socket_mode = small(v); }},
  {"daemon", "log_level", KeyType::kChoice, "\"info\"", 0, 0, "error|warning|info|debug",
   "Least severe messages that are logged. \"debug\" includes DPDK's own log, where the daemon "
   "starts with it: SIGHUP changes Lyre's lines only.",
   [](Config& c, const KeyValue& v) { c.log_level = choice<LogLevel>(v); }},

  {"workers", "cores", KeyType::kCores, "\"auto\"", 0, 1023, "",
   "One worker thread runs on each core of the list. \"auto\" takes cores of the NICs' NUMA node, "
   "one for each 15 Gb/s of the ports' speed and at least one, and core 0 only where there is no "
   "other. lyred --check says which. Every worker has a queue pair of its own at each port: "
   "\"auto\" takes no more cores than a port has queue pairs. The two ends of a memif wire need "
   "the same number: name the cores where another port's queue pairs may shorten \"auto\".",
   [](Config& c, const KeyValue& v) { c.cores = std::get<std::vector<uint32_t>>(v); }},
  {"workers", "leave_busy_cores", KeyType::kFlag, "true", 0, 0, "",
   "An adaptive worker on whose core another thread computes runs on others of the node, for 1 to "
   "16 s, then returns: those that the daemon may use and that are no worker's. false: it stays.",
   [](Config& c, const KeyValue& v) { c.leaves_busy_cores = flag(v); }},
  {"workers", "idle", KeyType::kChoice, "\"adaptive\"", 0, 0, "adaptive|busy",
   "\"adaptive\": a worker without work gives its core away and sleeps. \"busy\": it polls "
   "forever, for lowest latency on cores that nothing else uses.",
   [](Config& c, const KeyValue& v) { c.idle = choice<IdleMode>(v); }},
  {"workers", "spin_us", KeyType::kNumber, "50", 0, 1'000'000, "",
   "How long an adaptive worker polls for work before it sleeps.",
   [](Config& c, const KeyValue& v) { c.spin = micros(number(v)); }},
  {"workers", "awake_ms", KeyType::kNumber, "100", 0, 10'000, "",
   "Longest gap, in milliseconds, between two steps of a job in which an adaptive worker polls. It "
   "does so after four gaps in a row of 5 ms to this length, while nothing else computes on its "
   "core: it sleeps for half of the shortest of the four, then polls. 0: it sleeps in every gap.",
   [](Config& c, const KeyValue& v) { c.awake = millis(number(v)); }},

  {"memory", "hugepages", KeyType::kChoice, "\"auto\"", 0, 0, "auto|yes|no",
   "\"auto\" uses hugepages where enough are free. \"yes\" fails without them.",
   [](Config& c, const KeyValue& v) { c.hugepages = choice<HugepagesMode>(v); }},
  {"memory", "rx_slots", KeyType::kNumber, "8192", 1024, 1 << 20, "",
   "Packets in the receive pool of each worker. It holds what was received and not yet read.",
   [](Config& c, const KeyValue& v) { c.rx_slots = small(v); }},
  {"memory", "mib", KeyType::kNumber, "0", 0, 1 << 20, "",
   "Memory for DPDK in MiB where no hugepages are used. 0: by the number of workers.",
   [](Config& c, const KeyValue& v) { c.memory_mib = small(v); }},

  {"port", "name", KeyType::kName, "", 1, 31, "",
   "Name of this port for tools and routes.",
   [](Config& c, const KeyValue& v) { c.ports.back().name = text(v); }},
  {"port", "device", KeyType::kText, "", 1, 127, "",
   "The NIC's PCI address, a NIC on Hyper-V's VMbus (vmbus:UUID,mac=ADDRESS), or a DPDK device "
   "string for a virtual port.",
   [](Config& c, const KeyValue& v) { c.ports.back().device = text(v); }},
  {"port", "address", KeyType::kInterface, "", 0, 0, "",
   "This host's address on the wire, with its network, or a list of addresses, IPv4 and IPv6. The "
   "kernel must not use the same ones. Peers are told to connect to the first one. Through an IPv4 "
   "gateway, connections are from the first IPv4 address where that is a /32, as on a routed host "
   "with a /31 to its switch, or else from the one in the gateway's network.",
   [](Config& c, const KeyValue& v) {
     c.ports.back().addresses = std::get<std::vector<Cidr>>(v);
   }},
  {"port", "gateway", KeyType::kGateways, "\"\"", 0, 0, "",
   "Router for addresses outside every port's network, or a list of one for IPv4 and one for IPv6; "
   "\"\" is none.",
   [](Config& c, const KeyValue& v) {
     c.ports.back().gateways = std::get<std::vector<IpAddress>>(v);
   }},
  {"port", "accept_ra", KeyType::kFlag, "false", 0, 0, "",
   "Learn the IPv6 default router from router advertisements. Addresses are never taken from them.",
   [](Config& c, const KeyValue& v) { c.ports.back().accepts_routers = flag(v); }},
  {"port", "mtu", KeyType::kNumber, "1500", 576, 9216, "",
   "Largest IP packet in bytes. Both ends and the network between them must carry it.",
   [](Config& c, const KeyValue& v) { c.ports.back().mtu_bytes = small(v); }},
  {"port", "dscp", KeyType::kNumber, "0", 0, 63, "",
   "Differentiated services code point of the packets (RFC 2474). A session may choose its own.",
   [](Config& c, const KeyValue& v) {
     c.ports.back().marking.dscp = static_cast<uint8_t>(number(v));
   }},
  {"port", "hop_limit", KeyType::kNumber, "64", 1, 255, "",
   "Hop limit, in IPv4 time to live, of the packets. A session may choose its own.",
   [](Config& c, const KeyValue& v) {
     c.ports.back().marking.hop_limit = static_cast<uint8_t>(number(v));
   }},
  {"port", "neighbours", KeyType::kNumber, "0", 0, 65'536, "",
   "Hosts and routers of the port's networks whose MAC addresses a worker remembers; 0 chooses by "
   "the size of the networks.",
   [](Config& c, const KeyValue& v) { c.ports.back().neighbours_max = small(v); }},
  {"port", "speed_mbps", KeyType::kNumber, "0", 0, 1'000'000, "",
   "Speed of the port in Mb/s for NICs that do not report it (ENA); 0 is what the NIC reports. "
   "cores = \"auto\" counts a NIC that is bound to a user-space driver with this speed only.",
   [](Config& c, const KeyValue& v) { c.ports.back().speed_mbps = small(v); }},
  {"port", "flow_mbps", KeyType::kNumber, "0", 0, 1'000'000, "",
   "Most that the network gives one connection, in Mb/s; 0 chooses by driver: 5000 for ENA.",
   [](Config& c, const KeyValue& v) { c.ports.back().flow_mbps = small(v); }},
  {"port", "trusted", KeyType::kFlag, "false", 0, 0, "",
   "The wire does not corrupt packets: received checksums are not verified, memif computes none. "
   "Both ends of a memif must have the same.",
   [](Config& c, const KeyValue& v) { c.ports.back().is_trusted = flag(v); }},
  {"port", "super_packets", KeyType::kFlag, "false", 0, 0, "",
   "TCP packets of up to 64 KiB are received uncut: from a memif, which needs trusted and whose "
   "ends must have the same, and from a virtio NIC with LRO. net_af_packet needs no key for them.",
   [](Config& c, const KeyValue& v) { c.ports.back().has_super_packets = flag(v); }},
  {"port", "force", KeyType::kFlag, "false", 0, 0, "",
   "Use the NIC even if it carries the machine's default route or an SSH session.",
   [](Config& c, const KeyValue& v) { c.ports.back().is_forced = flag(v); }},

  {"route", "to", KeyType::kNetwork, "", 0, 0, "",
   "Network that is reached through another router than the port's gateway.",
   [](Config& c, const KeyValue& v) {
     c.routes.back().network = std::get<Cidr>(v);
   }},
  {"route", "via", KeyType::kAddress, "", 0, 0, "",
   "The router. It is in the network of the port, unless that has a /32 or /128 address.",
   [](Config& c, const KeyValue& v) { c.routes.back().gateway = std::get<IpAddress>(v); }},
  {"route", "port", KeyType::kName, "", 1, 31, "",
   "Name of the port through which the router is reached.",
   [](Config& c, const KeyValue& v) { c.routes.back().port_name = text(v); }},

  {"domain", "name", KeyType::kName, "", 1, 31, "",
   "Name of this domain for the log.",
   [](Config& c, const KeyValue& v) { c.domains.back().name = text(v); }},
  {"domain", "socket", KeyType::kPath, "", 2, kSocketPathBytesMax, "",
   "Its control socket.",
   [](Config& c, const KeyValue& v) { c.domains.back().socket_path = text(v); }},
  {"domain", "group", KeyType::kText, "\"\"", 0, 32, "",
   "Group of that socket. \"\" keeps the daemon's own group.",
   [](Config& c, const KeyValue& v) { c.domains.back().socket_group = text(v); }},
  {"domain", "mode", KeyType::kMode, "\"0660\"", 0, 0777, "",
   "Permissions of that socket.",
   [](Config& c, const KeyValue& v) { c.domains.back().socket_mode = small(v); }},
  {"domain", "uids", KeyType::kNumbers, "[]", 0, UINT32_MAX - 1, "",
   "Users who are members. With neither uids nor gids, all who can open the socket are. They must "
   "also be able to open it (group, mode).",
   [](Config& c, const KeyValue& v) {
     c.domains.back().uids = std::get<std::vector<uint32_t>>(v);
   }},
  {"domain", "gids", KeyType::kNumbers, "[]", 0, UINT32_MAX - 1, "",
   "Groups whose users are members. They must also be able to open the socket (group, mode).",
   [](Config& c, const KeyValue& v) {
     c.domains.back().gids = std::get<std::vector<uint32_t>>(v);
   }},
  {"domain", "ports", KeyType::kNames, "[]", 1, 31, "",
   "Names of the ports that it may use. [] is all.",
   [](Config& c, const KeyValue& v) {
     c.domains.back().port_names = std::get<std::vector<std::string>>(v);
   }},
  {"domain", "listen", KeyType::kFlag, "true", 0, 0, "",
   "It may listen.",
   [](Config& c, const KeyValue& v) { c.domains.back().may_listen = flag(v); }},
  {"domain", "low_ports", KeyType::kFlag, "false", 0, 0, "",
   "It may use local TCP ports below 1024.",
   [](Config& c, const KeyValue& v) { c.domains.back().may_use_low_ports = flag(v); }},
  {"domain", "peers", KeyType::kNetworks, "[]", 0, 0, "",
   "Networks of the hosts to which it may connect, and from which it accepts. [] is all.",
   [](Config& c, const KeyValue& v) { c.domains.back().peers = std::get<std::vector<Cidr>>(v); }},
  {"domain", "contexts_max", KeyType::kNumber, "256", 1, worker::kContextsMax, "",
   "Contexts of its clients that can be attached at the same time. Where those of all domains "
   "together are more than clients.contexts_max, one can take what another is allowed.",
   [](Config& c, const KeyValue& v) { c.domains.back().contexts_max = small(v); }},
  {"domain", "connections_max", KeyType::kNumber, "0", 0, 1 << 20, "",
   "Connections of all its clients, on each worker. 0: clients.connections_per_uid_max.",
   [](Config& c, const KeyValue& v) { c.domains.back().connections_max = small(v); }},
  {"domain", "listeners_max", KeyType::kNumber, "0", 0, 1 << 20, "",
   "Listeners of all its clients. 0: clients.listeners_per_uid_max.",
   [](Config& c, const KeyValue& v) { c.domains.back().listeners_max = small(v); }},
  {"domain", "registered_bytes_max", KeyType::kNumber, "1099511627776", 0, int64_t{1} << 40, "",
   "Registered memory of all its clients together.",
   [](Config& c, const KeyValue& v) {
     c.domains.back().registered_bytes_max = static_cast<uint64_t>(number(v));
   }},
  {"domain", "weight", KeyType::kNumber, "1", 1, 64, "",
   "Share of each of its clients in sending and in the receive pool, beside those of others.",
   [](Config& c, const KeyValue& v) { c.domains.back().weight = small(v); }},

  {"tcp", "congestion", KeyType::kChoice, "\"cubic\"", 0, 0, "cubic|newreno|dctcp",
   "Congestion control of new connections. \"dctcp\" is for networks whose switches mark early. It "
   "requests ECN, and behaves as \"newreno\" with peers that do not have ECN.",
   [](Config& c, const KeyValue& v) { c.connection.congestion = congestion(v); }},
  {"tcp", "ecn", KeyType::kChoice, "\"accept\"", 0, 0, "accept|on|off",
   "Explicit congestion notification: agree when a peer requests it, request it too, or neither.",
   [](Config& c, const KeyValue& v) { c.connection.ecn = ecn(v); }},
  {"tcp", "pacing", KeyType::kFlag, "false", 0, 0, "",
   "Spread each window over its round trip. For networks with shallow queues; costs throughput "
   "where there are none. A round trip below 0.2 ms is too short for it: workers send in steps of "
   "65 us.",
   [](Config& c, const KeyValue& v) { c.connection.pacing = flag(v); }},
  {"tcp", "user_timeout_ms", KeyType::kNumber, "20000", 100, 86'400'000, "",
   "A connection whose bytes stay unacknowledged for this time ends with an error.",
   [](Config& c, const KeyValue& v) { c.connection.user_timeout_ms = small(v); }},
  {"tcp", "connect_timeout_ms", KeyType::kNumber, "180000", 100, 3'600'000, "",
   "A connection that a client opens ends with an error if it is not established after this time "
   "(RFC 9293 3.8.3: at least three minutes).",
   [](Config& c, const KeyValue& v) { c.connection.connect_timeout_ms = small(v); }},
  {"tcp", "syn_received_timeout_s", KeyType::kNumber, "10", 1, 600, "",
   "A connection that a peer opens is forgotten if the peer does not complete the handshake in "
   "this time.",
   [](Config& c, const KeyValue& v) { c.connection.syn_received_timeout_s = tiny(v); }},
  {"tcp", "rto_min_ms", KeyType::kNumber, "200", 1, 60'000, "",
   "Smallest retransmission timeout. It must exceed the time by which peers delay ACKs.",
   [](Config& c, const KeyValue& v) { c.connection.rto_min_us = 1000 * small(v); }},
  {"tcp", "ack_delay_ms", KeyType::kNumber, "40", 0, 500, "",
   "Longest delay of an acknowledgement.",
   [](Config& c, const KeyValue& v) { c.connection.ack_delay_ms = tiny(v); }},
  {"tcp", "time_wait_ms", KeyType::kNumber, "60000", 0, 240'000, "",
   "How long addresses and ports of a closed connection stay reserved.",
   [](Config& c, const KeyValue& v) { c.connection.time_wait_ms = small(v); }},
  {"tcp", "receive_buffer_bytes", KeyType::kNumber, "4194304", 64 * kKiB, kGiB, "",
   "Most that one connection may hold in the receive pool, counted in whole packet slots.",
   [](Config& c, const KeyValue& v) { c.connection.receive_buffer_bytes = small(v); }},
  {"tcp", "receive_buffer_start_bytes", KeyType::kNumber, "262144", 16 * kKiB, kGiB, "",
   "Receive buffer of a new connection. It grows with what its reader takes in a round trip.",
   [](Config& c, const KeyValue& v) { c.connection.receive_buffer_start_bytes = small(v); }},
  {"tcp", "timestamps", KeyType::kFlag, "true", 0, 0, "",
   "Offer timestamps (RFC 7323).",
   [](Config& c, const KeyValue& v) { c.connection.timestamps = flag(v); }},
  {"tcp", "sack", KeyType::kFlag, "true", 0, 0, "",
   "Offer selective acknowledgements (RFC 2018).",
   [](Config& c, const KeyValue& v) { c.connection.sack = flag(v); }},
  {"tcp", "window_scaling", KeyType::kFlag, "true", 0, 0, "",
   "Offer window scaling (RFC 7323).",
   [](Config& c, const KeyValue& v) { c.connection.window_scaling = flag(v); }},
  {"tcp", "syn_cookies", KeyType::kFlag, "true", 0, 0, "",
   "Answer a SYN with a cookie (RFC 4987) when the listener's backlog is full; else it is dropped.",
   [](Config& c, const KeyValue& v) { c.connection.syn_cookies = flag(v); }},
  {"tcp", "nagle", KeyType::kFlag, "false", 0, 0, "",
   "Hold small segments back while others are unacknowledged (RFC 9293 3.7.4).",
   [](Config& c, const KeyValue& v) { c.connection.nagle = flag(v); }},
  {"tcp", "keepalive", KeyType::kFlag, "false", 0, 0, "",
   "Probe silent connections (RFC 9293 3.8.4).",
   [](Config& c, const KeyValue& v) { c.connection.keepalive = flag(v); }},
  {"tcp", "keepalive_idle_ms", KeyType::kNumber, "7200000", 1000, 86'400'000, "",
   "Silence before the first probe.",
   [](Config& c, const KeyValue& v) { c.connection.keepalive_idle_ms = small(v); }},
  {"tcp", "keepalive_interval_ms", KeyType::kNumber, "75000", 100, 86'400'000, "",
   "Time between probes.",
   [](Config& c, const KeyValue& v) { c.connection.keepalive_interval_ms = small(v); }},
  {"tcp", "keepalive_probes", KeyType::kNumber, "9", 1, channel::kKeepaliveProbesMax, "",
   "A connection ends after this number of unanswered probes.",
   [](Config& c, const KeyValue& v) {
     c.connection.keepalive_count = static_cast<uint8_t>(small(v));
   }},
  {"tcp", "connections_max", KeyType::kNumber, "4096", 16, 1 << 20, "",
   "Connections of each worker. The memory is reserved at the start. `lyre sessions` shows those "
   "with the first 16384 numbers on each worker, and says how many others there are.",
   [](Config& c, const KeyValue& v) { c.connections_max = small(v); }},

  {"clients", "lend", KeyType::kChoice, "\"domain\"", 0, 0, "domain|uid|none",
   "Which clients read received bytes where the NIC put them: all, if one domain has all ports; "
   "of these, those of one uid; or none. Such a client can read what other clients receive. "
   "The others get copies.",
   [](Config& c, const KeyValue& v) { c.lend = choice<Lend>(v); }},
  {"clients", "uid", KeyType::kNumber, "-1", -1, UINT32_MAX - 1, "",
   "The uid meant by lend = \"uid\", which needs it. -1 is none.",
   [](Config& c, const KeyValue& v) { c.lend_uid = number(v); }},
  {"clients", "arena_bytes_max", KeyType::kNumber, "1073741824", kMiB,
   static_cast<int64_t>(channel::kArenaBytesMax), "",
   "Largest arena (memory for sending) that one context may ask for.",
   [](Config& c, const KeyValue& v) { c.arena_bytes_max = static_cast<uint64_t>(number(v)); }},
  {"clients", "arena_bytes_per_uid_max", KeyType::kNumber, "17179869184", kMiB, int64_t{1} << 40,
   "", "Arenas, rings and copy areas of all clients of one uid together.",
   [](Config& c, const KeyValue& v) {
     c.arena_bytes_per_uid_max = static_cast<uint64_t>(number(v));
   }},
  {"clients", "registered_bytes_max", KeyType::kNumber, "68719476736", 0, int64_t{1} << 40, "",
   "Memory of its own that one context may register for sending without a copy. 0 allows none.",
   [](Config& c, const KeyValue& v) {
     c.registered_bytes_max = static_cast<uint64_t>(number(v));
   }},
  {"clients", "registered_bytes_per_uid_max", KeyType::kNumber, "824633720832", 0, int64_t{1} << 40,
   "", "Registered memory of all clients of one uid together. The daemon has 1 TiB of addresses.",
   [](Config& c, const KeyValue& v) {
     c.registered_bytes_per_uid_max = static_cast<uint64_t>(number(v));
   }},
  {"clients", "regions_per_uid_max", KeyType::kNumber, "5376", 0,
   worker::kRegionsMax - worker::kContextsMax, "",
   "Registered regions of all clients of one uid together. The daemon has 7168.",
   [](Config& c, const KeyValue& v) { c.regions_per_uid_max = small(v); }},
  {"clients", "contexts_max", KeyType::kNumber, "256", 1, worker::kContextsMax, "",
   "Contexts that can be attached at the same time.",
   [](Config& c, const KeyValue& v) { c.contexts_max = small(v); }},
  {"clients", "contexts_per_uid_max", KeyType::kNumber, "192", 1, worker::kContextsMax, "",
   "The same for the clients of one uid.",
   [](Config& c, const KeyValue& v) { c.contexts_per_uid_max = small(v); }},
  {"clients", "connections_max", KeyType::kNumber, "0", 0, 1 << 20, "",
   "Connections of one client on each worker. 0: three quarters of tcp.connections_max.",
   [](Config& c, const KeyValue& v) { c.client_connections_max = small(v); }},
  {"clients", "connections_per_uid_max", KeyType::kNumber, "0", 0, 1 << 20, "",
   "The same for all clients of one uid. 0: seven eighths of tcp.connections_max.",
   [](Config& c, const KeyValue& v) { c.connections_per_uid_max = small(v); }},
  {"clients", "listeners_max", KeyType::kNumber, "512", 1, 1024, "",
   "Listeners of one client. The daemon has 1024.",
   [](Config& c, const KeyValue& v) { c.listeners_max = small(v); }},
  {"clients", "listeners_per_uid_max", KeyType::kNumber, "768", 1, 1024, "",
   "Listeners of all clients of one uid.",
   [](Config& c, const KeyValue& v) { c.listeners_per_uid_max = small(v); }},
  {"clients", "log_lines_per_minute_max", KeyType::kNumber, "240", 1, 1'000'000, "",
   "Log lines that clients of one uid can cause in a minute. A quarter of them is kept for "
   "warnings. The log tells how many it left out.",
   [](Config& c, const KeyValue& v) { c.log_lines_per_minute_max = small(v); }},
};
// clang-format on

std::string quoted_choices(std::string_view choices) {
  std::string out;
  while (!choices.empty()) {
    const size_t bar = choices.find('|');
    if (!out.empty()) out += ", ";
    out += '"' + std::string(choices.substr(0, bar)) + '"';
    choices = bar == std::string_view::npos ? "" : choices.substr(bar + 1);
  }
  return out;
}

}  // namespace

std::span<const Key> config_keys() { return kKeys; }

std::string allowed_text(const Key& key) {
  const std::string range = std::to_string(key.min) + " to " + std::to_string(key.max);
  switch (key.type) {
    case KeyType::kFlag:
      return "true, false";
    case KeyType::kNumber:
      return "integers from " + range;
    case KeyType::kText:
      return "strings of " + range + " printable characters";
    case KeyType::kName:
      return "strings of " + range + " letters, digits, '_', '-', '.'";
    case KeyType::kPath:
      return "absolute paths of at most " + std::to_string(key.max) + " bytes";
    case KeyType::kChoice:
      return quoted_choices(key.choices);
    case KeyType::kMode:
      return "octal strings like \"0660\" that let somebody write";
    case KeyType::kCores:
      return "\"auto\" or a list of 1 to " + std::to_string(channel::kWorkersMax) +
             " distinct core numbers from " + range;
    case KeyType::kAddress:
      return "addresses like \"10.9.0.254\" or \"fd00::fe\"";
    case KeyType::kGateways:
      return "an address like \"10.9.0.254\" or \"fd00::fe\", a list of one of each family, or "
             "\"\" for none";
    case KeyType::kInterface:
      return "a host address with its prefix like \"10.9.0.1/24\" or \"fd00::1/64\", or a list of "
             "up to " +
             std::to_string(kConfiguredAddressesMax) + " distinct ones";
    case KeyType::kNetwork:
      return "a network like \"10.20.0.0/16\" or \"fd00:20::/32\"";
    case KeyType::kNetworks:
      return "a list of networks like \"10.20.0.0/16\" or \"fd00:20::/32\"";
    case KeyType::kNumbers:
      return "a list of integers from " + range;
    case KeyType::kNames:
      return "a list of strings of " + range + " letters, digits, '_', '-', '.'";
  }
  return {};
}

}  // namespace lyre
