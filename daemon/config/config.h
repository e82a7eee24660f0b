#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config_addresses.h"
#include "stack/base/ip_address.h"
#include "stack/base/ip_marking.h"
#include "stack/base/nanos.h"
#include "stack/base/result.h"
#include "stack/channel/abi.h"
#include "stack/tcp/config.h"

namespace lyre {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };
enum class IdleMode : uint8_t { kAdaptive, kBusy };
enum class HugepagesMode : uint8_t { kAuto, kYes, kNo };

/// Which clients receive pools are lent to. The others get copies in memory of their own.
enum class Lend : uint8_t {
  kDomain,  ///< all clients, if one domain has all ports; else no client
  kUid,     ///< of these, the clients of one uid
  kNone,    ///< no client
};

/// Addresses of one port; a link-local one may be derived beside them.
inline constexpr size_t kConfiguredAddressesMax = kPortAddressesMax - 1;

/// Defaults of daemon.socket_group and daemon.socket_mode, which [[domain]] sections replace.
inline constexpr std::string_view kDefaultSocketGroup = "lyre-clients";
inline constexpr uint32_t kDefaultSocketMode = 0660;

/// Where a section of an array stands in the file.
struct SectionLines {
  uint32_t first = 0;
  std::map<std::string_view, uint32_t> keys;  ///< those that are given, named as in config_keys()

  /// The section's where the key is not given.
  uint32_t of(std::string_view key) const {
    const auto given = keys.find(key);
    return given == keys.end() ? first : given->second;
  }
};

struct PortConfig {
  std::string name;
  std::string device;  ///< EAL device string or PCI address
  std::vector<Cidr> addresses;
  std::vector<IpAddress> gateways;  ///< at most one of each family
  bool accepts_routers = false;     ///< learns default routers of IPv6 from the wire
  uint32_t mtu_bytes = 0;
  uint32_t neighbours_max = 0;  ///< of each worker; 0: by the size of the port's networks
  IpMarking marking;
  uint32_t speed_mbps = 0;  ///< 0: as the NIC reports
  uint32_t flow_mbps = 0;   ///< of one flow; 0: by driver
  bool is_trusted = false;
  bool has_super_packets = false;
  bool is_forced = false;
  SectionLines lines;
};

struct RouteConfig {
  Cidr network;
  IpAddress gateway;
  std::string port_name;
  uint32_t port = 0;  ///< index in Config::ports
  SectionLines lines;
};

/// Clients that trust each other: those that may open one control socket.
struct DomainConfig {
  std::string name;
  std::string socket_path;
  std::string socket_group;
  uint32_t socket_mode = 0;
  std::vector<uint32_t> uids;           ///< members, besides the socket's permissions; with
  std::vector<uint32_t> gids;           ///< neither: all who can open it
  std::vector<std::string> port_names;  ///< none: all
  uint32_t ports = UINT32_MAX;          ///< bit n: Config::ports[n]
  bool may_listen = true;
  bool may_use_low_ports = true;
  std::vector<Cidr> peers;  ///< none: all networks
  uint32_t contexts_max = UINT32_MAX;
  uint32_t connections_max = 0;  ///< of a worker; 0: as for the clients of a uid
  uint32_t listeners_max = 0;    ///< the same
  uint64_t registered_bytes_max = UINT64_MAX;
  uint32_t weight = 1;
  SectionLines lines;
};

/// Most workers.
inline constexpr uint32_t kCoresMax = channel::kWorkersMax;

/// The configuration, complete and checked. The key table in config_keys.cc has the defaults.
struct Config {
  std::string file;

  std::string name;
  std::string socket_path;  ///< with `has_domains` the administrator's
  std::string socket_group;
  uint32_t socket_line = 0;        ///< line in the file; 0: not given
  uint32_t socket_group_line = 0;  ///< line in the file; 0: not given
  uint32_t socket_mode = 0;
  uint32_t socket_mode_line = 0;  ///< line in the file; 0: not given
  LogLevel log_level{};

  bool has_domains = false;           ///< the file names them
  std::vector<DomainConfig> domains;  ///< at least one; without `has_domains` that of `socket_path`

  std::vector<uint32_t> cores;    ///< empty: place_workers() chooses
  bool has_chosen_cores = false;  ///< `cores` are its choice
  uint32_t cores_line = 0;        ///< line in the file; 0: not given
  std::vector<int> memory_nodes;  ///< of each worker's packet memory; set by place_workers()
  std::vector<std::vector<uint32_t>> other_cores;  ///< of each worker; set by place_workers()
  bool leaves_busy_cores = false;
  IdleMode idle{};
  Nanos spin;
  Nanos awake;

  HugepagesMode hugepages{};
  uint32_t hugepages_line = 0;  ///< line in the file; 0: not given
  uint32_t rx_slots = 0;
  uint32_t rx_slots_line = 0;  ///< line in the file; 0: not given
  uint32_t memory_mib = 0;

  std::vector<PortConfig> ports;
  std::vector<RouteConfig> routes;

  tcp::ConnectionConfig connection;
  uint32_t connections_max = 0;

  Lend lend{};
  uint32_t lend_line = 0;      ///< line in the file; 0: not given
  int64_t lend_uid = -1;       ///< -1: not given
  uint32_t lend_uid_line = 0;  ///< line in the file; 0: not given
  uint64_t arena_bytes_max = 0;
  uint64_t arena_bytes_per_uid_max = 0;
  uint64_t registered_bytes_max = 0;
  uint64_t registered_bytes_per_uid_max = 0;
  uint32_t regions_per_uid_max = 0;
  uint32_t contexts_max = 0;
  uint32_t contexts_per_uid_max = 0;
  uint32_t client_connections_max = 0;  ///< of a worker, as the next three
  uint32_t connections_per_uid_max = 0;
  uint32_t listeners_max = 0;
  uint32_t listeners_per_uid_max = 0;
  uint32_t log_lines_per_minute_max = 0;
};

/// A file as far as it could be read: keys that are wrong have the values of Config{}.
struct ReadConfig {
  Config config;
  /// A line "FILE:LINE: KEY: what is wrong, allowed: ..." for each error, separated by '\n'.
  std::string errors;
};

/// Reads and checks a file.
ReadConfig read_config(const std::string& path);
/// Fails: the errors of read_config().
Result<Config> load_config(const std::string& path);
/// The same for `text`; messages call it `name`.
Result<Config> parse_config(std::string_view text, const std::string& name);

/// The receive rings of all ports may hold so many of a worker's `rx_slots`: the rest is for what
/// sessions have not read.
constexpr uint32_t ring_slots_max(uint32_t rx_slots) { return rx_slots - rx_slots / 4; }
/// What is wrong with memory.rx_slots where the rings hold so many, with what is allowed.
std::string too_few_slots(const Config& config, uint32_t ring_slots);

/// What a context with the smallest arena has: that, rings, and `copy_bytes` of all workers
/// together.
uint64_t context_bytes_min(uint32_t worker_count, uint64_t copy_bytes);

/// Every control socket: those of the domains and the administrator's.
std::vector<std::string> socket_paths(const Config& config);
/// The groups that may open one.
std::vector<std::string> socket_groups(const Config& config);

/// "FILE:LINE: KEY: text", the form of every message about a configuration; without a line 0.
std::string complaint(const std::string& file, uint32_t line, std::string_view key,
                      std::string_view text);

}  // namespace lyre
