#include "machine/local_addresses.h"

#include <arpa/inet.h>

#include <array>
#include <cstdint>

namespace lyre::machine {
namespace {

std::string ipv6_text(const std::string& hex) {
  std::array<uint8_t, 16> bytes{};
  if (hex.size() != 2 * bytes.size()) return {};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

}  // namespace

std::set<std::string> local_addresses(const Roots& roots) {
  std::set<std::string> found;
  std::string leaf;
  for (const std::string& line : lines(roots.proc + "/net/fib_trie")) {
    const auto parts = words(line);
    if (parts.size() == 2 && parts[0] == "|--") leaf = parts[1];
    if (parts.size() == 3 && parts[0] == "/32" && parts[2] == "LOCAL") found.insert(leaf);
  }
  for (const std::string& line : lines(roots.proc + "/net/if_inet6")) {
    const auto parts = words(line);
    if (!parts.empty()) found.insert(ipv6_text(parts[0]));
  }
  found.erase("");
  return found;
}

}  // namespace lyre::machine
