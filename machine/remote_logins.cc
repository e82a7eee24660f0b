#include "machine/remote_logins.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>
#include <vector>

#include "machine/routes.h"

namespace lyre::machine {
namespace {

constexpr uint16_t kSshPort = 22;
constexpr std::string_view kEstablished = "01";
constexpr std::string_view kListening = "0A";
constexpr size_t kIpv4Hex = 8;
constexpr size_t kIpv6Hex = 32;
constexpr uint32_t kAllBits = 128;

/// Of /proc/net/tcp and tcp6: 32-bit words as numbers of this machine.
Address address_of_socket(std::string_view text) {
  if (text.size() == kIpv4Hex) return mapped(hex(text));
  Address out{};
  for (size_t word = 0; word < 4 && text.size() == kIpv6Hex; ++word) {
    const uint32_t value = hex(text.substr(8 * word, 8));
    for (size_t i = 0; i < 4; ++i) out[4 * word + i] = static_cast<uint8_t>(value >> (8 * i));
  }
  return out;
}

struct TcpSocket {
  Address own;
  uint16_t own_port;
  Address peer;
  std::string state;
  std::string inode;  ///< empty: not told
};

std::vector<TcpSocket> tcp_sockets(const Roots& roots) {
  constexpr size_t kInode = 9;
  std::vector<TcpSocket> out;
  for (const char* file : {"/net/tcp", "/net/tcp6"}) {
    for (const std::string& line : lines(roots.proc + file)) {
      const auto parts = words(line);  // number, local, remote, state
      if (parts.size() < 4) continue;
      const size_t colon = parts[1].find(':');
      if (colon == std::string::npos) continue;
      out.push_back({.own = address_of_socket(parts[1].substr(0, colon)),
                     .own_port = static_cast<uint16_t>(hex(parts[1].substr(colon + 1))),
                     .peer = address_of_socket(parts[2].substr(0, parts[2].find(':'))),
                     .state = parts[3],
                     .inode = parts.size() > kInode ? parts[kInode] : ""});
    }
  }
  return out;
}

/// ::1 and 127.0.0.0/8.
bool is_loopback(const Address& address) {
  constexpr Address kIpv6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  constexpr Address kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
  constexpr size_t kIpv4Bytes = 13;  // of the prefix, mapped
  return address == kIpv6 || std::equal(kIpv4.begin(), kIpv4.begin() + kIpv4Bytes, address.begin());
}

/// The first word of that line of a process's status; empty without it.
std::string status_of(const std::string& process, std::string_view name) {
  for (const std::string& line : lines(process + "/status")) {
    const auto parts = words(line);
    if (parts.size() >= 2 && parts[0] == name) return parts[1];
  }
  return {};
}

bool is_pid(const std::string& name) {
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Any user can name a process so. The part of an SSH server that has the user's rights listens at
/// the ports that the user forwards.
bool is_ssh_server(const std::string& process) {
  return first_line(process + "/comm") == "sshd" && status_of(process, "Uid:") == "0";
}

/// What the descriptors of SSH servers are, as the names of their links: "socket:[4711]".
std::set<std::string> files_of_ssh_servers(const Roots& roots) {
  std::set<std::string> out;
  for (const std::string& name : entries(roots.proc)) {
    const std::string process = roots.proc + "/" + name;
    if (!is_pid(name) || !is_ssh_server(process)) continue;
    for (const std::string& fd : entries(process + "/fd")) {
      out.insert(link_name(process + "/fd/" + fd));
    }
  }
  return out;
}

/// The usual one, that of `ssh_connection`, and those on which SSH servers listen. A loopback
/// listener is that of a port or a display that root forwards.
std::set<uint16_t> ssh_ports(const Roots& roots, const std::string& ssh_connection,
                             const std::vector<TcpSocket>& sockets) {
  std::set<uint16_t> ports{kSshPort};
  const auto parts = words(ssh_connection);  // peer, its port, own address, own port
  if (parts.size() == 4) {
    ports.insert(static_cast<uint16_t>(std::strtoul(parts[3].c_str(), nullptr, 10)));
  }
  const std::set<std::string> servers = files_of_ssh_servers(roots);
  for (const TcpSocket& socket : sockets) {
    if (socket.state != kListening || is_loopback(socket.own)) continue;
    if (servers.count("socket:[" + socket.inode + "]") > 0) ports.insert(socket.own_port);
  }
  return ports;
}

/// Between this process and the one that the SSH server started: shell, sudo, and their like.
constexpr int kAncestorsMax = 64;

/// The variable of a process; empty without it, or where its environment may not be read.
std::string variable_of(const std::string& process, std::string_view name) {
  std::ifstream file(process + "/environ", std::ios::binary);
  const std::string wanted = std::string(name) + "=";
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (variable.starts_with(wanted)) return variable.substr(wanted.size());
  }
  return {};
}

/// The number of the parent process; empty: none.
std::string parent_of(const std::string& process) {
  const std::string parent = status_of(process, "PPid:");
  return parent == "0" ? "" : parent;
}

bool is_taken_by(const TcpSocket& login, const RouteRule& rule) {
  return rule.is_v4 == is_v4(login.peer) && is_in(login.own, rule.source, rule.source_bits) &&
         is_in(login.peer, rule.destination, rule.destination_bits);
}

/// The interfaces to which the table of `rule` sends the packets of `login`: those of the routes
/// with the longest prefix, of these with the longest prefix of the source, and of these with the
/// lowest metric. Of several such routes IPv4 uses the first one, and IPv6 may use each. Routes of
/// files have no rank among others: theirs are added.
std::set<std::string> ways_of(const TcpSocket& login, const RouteRule& rule,
                              const std::vector<Route>& routes) {
  using Rank = std::array<uint32_t, 4>;                        // the best one first
  std::map<bool, std::map<Rank, std::set<std::string>>> ways;  // by origin
  for (const Route& route : routes) {
    if (route.is_dead || !leads_to(rule, route)) continue;
    if (!is_in(login.peer, route.network, route.bits)) continue;
    if (!is_in(login.own, route.source, route.source_bits)) continue;
    const uint32_t order = rule.is_v4 ? route.number : 0;
    const Rank rank{kAllBits - route.bits, kAllBits - route.source_bits, route.metric, order};
    ways[route.is_of_file][rank].insert(route.interface);
  }
  std::set<std::string> out;
  for (auto& [is_of_file, by_rank] : ways) out.merge(by_rank.begin()->second);
  return out;
}

void add_interfaces_of(const TcpSocket& login, const std::vector<OwnAddress>& own_addresses,
                       const Routing& routing, std::set<std::string>& out) {
  bool has_interface = false;
  for (const OwnAddress& own : own_addresses) {
    if (own.address != login.own) continue;
    out.insert(own.interface);
    has_interface = true;
  }
  // Each interface has a route to link-local addresses. The socket's scope says which one is used.
  if (has_interface && is_link_local(login.peer)) return;
  for (const RouteRule& rule : routing.rules) {
    if (is_taken_by(login, rule)) out.merge(ways_of(login, rule, routing.routes));
  }
}

}  // namespace

std::string ssh_connection(const Roots& roots) {
  std::string process = "self";
  for (int i = 0; i < kAncestorsMax && !process.empty(); ++i) {
    const std::string folder = roots.proc + "/" + process;
    const std::string found = variable_of(folder, "SSH_CONNECTION");
    if (!found.empty()) return found;
    process = parent_of(folder);
  }
  return {};
}

std::set<std::string> login_interfaces(const Roots& roots, const std::string& ssh_connection,
                                       const std::vector<OwnAddress>& own_addresses,
                                       const Routing& routing) {
  const std::vector<TcpSocket> sockets = tcp_sockets(roots);
  const std::set<uint16_t> ports = ssh_ports(roots, ssh_connection, sockets);
  std::set<std::string> found;
  for (const TcpSocket& login : sockets) {
    if (login.state != kEstablished || ports.count(login.own_port) == 0) continue;
    add_interfaces_of(login, own_addresses, routing, found);
  }
  return found;
}

}  // namespace lyre::machine
