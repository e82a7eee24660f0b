#include "machine/remote_logins.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

#include "machine/routes.h"

namespace lyre::machine {
namespace {

constexpr uint16_t kSshPort = 22;
constexpr std::string_view kEstablished = "01";
constexpr size_t kIpv4Hex = 8;
constexpr size_t kIpv6Hex = 32;

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

struct Connection {
  Address own;
  Address peer;
};

/// Established ones to this port of the machine.
std::vector<Connection> connections_to(const Roots& roots, uint16_t own_port) {
  std::vector<Connection> out;
  for (const char* file : {"/net/tcp", "/net/tcp6"}) {
    for (const std::string& line : lines(roots.proc + file)) {
      const auto parts = words(line);  // number, local, remote, state
      if (parts.size() < 4 || parts[3] != kEstablished) continue;
      const size_t colon = parts[1].find(':');
      if (colon == std::string::npos || hex(parts[1].substr(colon + 1)) != own_port) continue;
      out.push_back({address_of_socket(parts[1].substr(0, colon)),
                     address_of_socket(parts[2].substr(0, parts[2].find(':')))});
    }
  }
  return out;
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
  for (const std::string& line : lines(process + "/status")) {
    const auto parts = words(line);
    if (parts.size() == 2 && parts[0] == "PPid:") return parts[1] == "0" ? "" : parts[1];
  }
  return {};
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
                                       const std::vector<OwnAddress>& own_addresses) {
  std::vector<Connection> logins = connections_to(roots, kSshPort);
  const auto parts = words(ssh_connection);  // peer, its port, own address, own port
  if (parts.size() == 4) {
    const auto own_port = static_cast<uint16_t>(std::strtoul(parts[3].c_str(), nullptr, 10));
    const auto more =
        own_port == kSshPort ? std::vector<Connection>{} : connections_to(roots, own_port);
    logins.insert(logins.end(), more.begin(), more.end());
  }
  const std::vector<Route> all = routes(roots);
  std::set<std::string> found;
  for (const Connection& login : logins) {
    for (const OwnAddress& own : own_addresses) {
      if (own.address == login.own) found.insert(own.interface);
    }
    const Route* best = nullptr;
    for (const Route& route : all) {
      if (is_in(login.peer, route) && (best == nullptr || route.bits > best->bits)) best = &route;
    }
    if (best != nullptr) found.insert(best->interface);
  }
  return found;
}

}  // namespace lyre::machine
