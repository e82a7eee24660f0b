#include "daemon/config/config_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "daemon/ports/port_set.h"
#include "stack/channel/stats.h"
#include "stack/worker/worker.h"
#include "tests/unit/daemon/sim_backend.h"

namespace lyre {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string port_section(const std::string& name, const std::string& keys) {
  return "[[port]]\nname=\"" + name + "\"\ndevice=\"sim-" + name + "\"\n" + keys;
}
std::string route_section(const std::string& to, const std::string& via,
                          const std::string& port = "a") {
  return "[[route]]\nto=\"" + to + "\"\nvia=\"" + via + "\"\nport=\"" + port + "\"\n";
}
std::string refusal_of(const std::string& text) {
  const auto config = parse_config(text, "f.toml");
  return config.ok() ? "" : config.error().text;
}

/// Makes a worker of a configuration that was accepted, which ends the process if its routes cannot
/// be added.
void make_worker(const Config& config) {
  SimBackend::Ports states;
  SimBackend backend(states);
  io::sim::Memory memory({.rx_slots = 16, .frame_bytes = 1518, .tx_packets = 16});
  std::vector<io::PacketMemory*> memories{&memory};
  PortSet ports(config);
  ASSERT_TRUE(ports.open(backend, memories).ok());
  std::vector<worker::RouteBinding> routes;
  for (const RouteConfig& each : config.routes) {
    routes.push_back({.network = each.network.address,
                      .prefix_bits = each.network.prefix_bits,
                      .gateway = each.gateway,
                      .port = each.port});
  }
  worker::WorkerConfig options;
  options.engine = {.connections_max = 2, .sent_records_max = 8, .received_runs_max = 8};
  channel::WorkerStats stats;
  const worker::Worker made(options, memory, ports.bindings(0), routes, {.worker = &stats});
}

constexpr const char* kNetwork = "address=\"10.9.0.1/24\"\n";

TEST(ConfigRoutes, ALoneAddressNeedsARouter) {
  const std::string lone = "address=[\"10.9.0.7/32\", \"fd00::7/128\"]\n";
  EXPECT_THAT(refusal_of(port_section("a", lone)), HasSubstr("of 'a' has no network (/32, /128)"));
  EXPECT_EQ(refusal_of(port_section("a", lone + "gateway=\"10.9.0.1\"\n")), "");
  EXPECT_EQ(refusal_of(port_section("a", lone + "accept_ra=true\n")), "");
  EXPECT_EQ(refusal_of(port_section("a", "address=\"fd00::7/128\"\naccept_ra=true\n")), "");
  EXPECT_EQ(refusal_of(port_section("a", "address=[\"10.9.0.7/24\", \"fd00::7/128\"]\n")), "");
  EXPECT_EQ(
      refusal_of(port_section("a", "address=\"fd00::7/128\"\n") + route_section("::/0", "fe80::1")),
      "");
}

// It was refused: "does not lie in its network".
TEST(ConfigRoutes, ALoneAddressHasRoutersOfRoutesOutside) {
  const std::string lone = port_section("a", "address=[\"10.9.0.7/32\", \"fd00::7/128\"]\n");
  const std::string routes =
      route_section("10.8.0.0/16", "10.9.0.1") + route_section("10.9.0.0/24", "10.9.0.1") +
      route_section("0.0.0.0/0", "10.9.0.2") + route_section("fd01::/64", "fd00::1");
  const auto config = parse_config(lone + routes, "f.toml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  make_worker(config.value());
  EXPECT_THAT(refusal_of(port_section("a", kNetwork) + route_section("10.8.0.0/16", "10.7.0.1")),
              HasSubstr("'10.7.0.1' of the port 'a' does not lie in its network, allowed: "));
  // The route to the router is one of that host already.
  const std::string to_router = route_section("10.9.0.1/32", "10.9.0.2");
  for (const std::string& text : {lone + routes + to_router, lone + to_router + routes}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("route.to: contains the router 10.9.0.1 of 'a'"));
  }
}

// Each of these passed the check and ended the daemon.
TEST(ConfigRoutes, ARouterBehindAnotherRouterIsRefused) {
  EXPECT_THAT(refusal_of(port_section("a", kNetwork) + route_section("10.9.0.200/32", "10.9.0.5") +
                         route_section("10.8.0.0/16", "10.9.0.200")),
              StartsWith("f.toml:6: route.to: contains the router 10.9.0.200 of 'a', allowed: "
                         "networks without routers of that port"));
  EXPECT_THAT(refusal_of(port_section("a", kNetwork) + route_section("10.9.0.128/25", "10.9.0.5") +
                         route_section("10.8.0.0/16", "10.9.0.200") +
                         route_section("10.9.0.200/32", "10.9.0.5")),
              HasSubstr("f.toml:6: route.to: contains the router 10.9.0.200"));
  EXPECT_THAT(refusal_of(port_section("a", kNetwork) + route_section("10.9.0.4/30", "10.9.0.5")),
              HasSubstr("f.toml:6: route.to: contains the router 10.9.0.5"));
  EXPECT_THAT(refusal_of(port_section("a", std::string(kNetwork) + "gateway=\"10.9.0.254\"\n") +
                         route_section("10.9.0.128/25", "10.9.0.5")),
              HasSubstr("f.toml:7: route.to: contains the router 10.9.0.254"));
}

TEST(ConfigRoutes, ARouterWithAnAddressOfOursIsRefused) {
  const std::string both =
      port_section("a", kNetwork) + port_section("b", "address=\"10.9.0.2/24\"\n");
  EXPECT_THAT(refusal_of(both + "gateway=\"10.9.0.1\"\n"),
              StartsWith("f.toml:9: port.gateway: '10.9.0.1' of 'b' is an address of the port 'a', "
                         "allowed: another host of its network"));
  EXPECT_THAT(
      refusal_of(both + route_section("10.8.0.0/16", "10.9.0.2")),
      StartsWith("f.toml:11: route.via: '10.9.0.2' of the port 'a' is an address of the port "
                 "'b', allowed: "));
  EXPECT_THAT(refusal_of(port_section("a", "address=\"10.9.0.7/32\"\ngateway=\"10.0.0.1\"\n") +
                         port_section("b", "address=\"10.0.0.1/24\"\n")),
              StartsWith("f.toml:5: port.gateway: '10.0.0.1' of 'a' is an address of the port 'b', "
                         "allowed: "));
}

TEST(ConfigRoutes, WhatIsABroadcastAddressAtAnotherPortIsRefused) {
  const std::string wide = port_section("a", "address=\"10.9.0.1/16\"\n");
  const std::string narrow = port_section("b", "address=\"10.9.1.1/24\"\n");
  EXPECT_EQ(refusal_of(wide + narrow), "");
  EXPECT_THAT(refusal_of(wide + "gateway=\"10.9.1.255\"\n" + narrow),
              StartsWith("f.toml:5: port.gateway: '10.9.1.255' of 'a' is the broadcast or network "
                         "address of the port 'b', allowed: "));
  EXPECT_THAT(refusal_of(wide + narrow + route_section("10.8.0.0/16", "10.9.1.0")),
              StartsWith("f.toml:11: route.via: '10.9.1.0' of the port 'a' is the broadcast or "
                         "network address of the port 'b', allowed: "));
  EXPECT_THAT(refusal_of(narrow + port_section("c", "address=\"10.9.1.255/16\"\n")),
              StartsWith("f.toml:8: port.address: of 'c' is the broadcast or network address of "
                         "'b', allowed: "));
}

TEST(ConfigRoutes, PartsOfTheOwnNetworkMayHaveARouter) {
  EXPECT_EQ(refusal_of(port_section("a", kNetwork) + route_section("10.9.0.128/25", "10.9.0.5") +
                       route_section("10.0.0.0/8", "10.9.0.6") +
                       route_section("10.9.0.200/32", "10.9.0.5")),
            "");
}

TEST(ConfigRoutes, AsManyAsTheFileMayNameFitIntoTheTable) {
  std::string text;
  for (uint32_t i = 0; i < worker::kPortsMax; ++i) {
    const std::string n = std::to_string(i);
    std::string addresses = "\"fe80::" + n + "1/128\", \"fd00::" + n + "/128\"";
    for (uint32_t k = 2; k < kConfiguredAddressesMax; ++k)
      addresses += ", \"10." + n + "." + std::to_string(k) + ".1/32\"";
    text += port_section("p" + n, "address=[" + addresses + "]\naccept_ra=true\n" +
                                      "gateway=[\"11.0.0." + std::to_string(i + 1) +
                                      "\", \"fe80::ff\"]\n");
  }
  for (uint32_t i = 0; i < worker::kRoutesMax; ++i) {
    const std::string n = std::to_string(i);
    text += route_section("fd01:" + n + "::/64", "fe80::fe:" + n, "p0");
  }
  const auto config = parse_config(text, "f.toml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  make_worker(config.value());
}

/// Ports and routes of a few networks that overlap, so that many of them are at odds.
class RandomNetworks {
 public:
  explicit RandomNetworks(uint32_t seed) : random_(seed) {}

  std::string file() {
    std::string text;
    const uint32_t ports = 1 + below(2);
    for (uint32_t i = 0; i < ports; ++i) {
      std::string addresses = "\"" + host() + "/" + bits() + "\"";
      if (below(4) == 0) addresses += ", \"" + host() + "/" + bits() + "\"";
      if (below(3) == 0)
        addresses += ", \"fd00:" + digit() + "::1/64\", \"fe80::8" + digit() + "/64\"";
      std::string keys = "address=[" + addresses + "]\n";
      if (below(2) == 0) keys += "gateway=\"" + host() + "\"\n";
      text += port_section(std::string(1, static_cast<char>('a' + i)), keys);
    }
    for (uint32_t more = below(4); more > 0; --more) {
      const std::string on(1, static_cast<char>('a' + below(ports)));
      text += below(6) == 0 ? route_section("fd01:" + digit() + "::/32", "fe80::8" + digit(), on)
                            : route_section(network(), host(), on);
    }
    return text;
  }

 private:
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  std::string digit() { return std::to_string(1 + below(4)); }
  std::string host() { return "10.9.0." + std::to_string(1 + below(14)); }
  std::string bits() { return below(4) > 0 ? "24" : below(3) > 0 ? "32" : "28"; }
  std::string network() {
    const uint32_t length = 29 + below(4);
    const uint32_t start = below(16) & ~((1u << (32 - length)) - 1);
    return "10.9.0." + std::to_string(start) + "/" + std::to_string(length);
  }

  std::mt19937 random_;
};

TEST(ConfigRoutes, WhateverPassesTheCheckFitsIntoTheTable) {
  uint32_t accepted = 0;
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    const std::string text = RandomNetworks(seed).file();
    const auto config = parse_config(text, "f.toml");
    if (!config.ok()) continue;
    ++accepted;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    make_worker(config.value());
  }
  EXPECT_GT(accepted, 200u);
}

}  // namespace
}  // namespace lyre
