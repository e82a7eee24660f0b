#include "daemon/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "daemon/config/config_domains.h"
#include "daemon/config/config_keys.h"
#include "stack/base/page_size.h"

namespace lyre {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kPort =
    "[[port]]\n"
    "name = \"rail0\"\n"
    "device = \"net_memif0,role=server,socket=/tmp/x.sock\"\n"
    "address = \"10.9.0.1/24\"\n";

std::string error_of(const std::string& text) {
  const auto config = parse_config(text, "f.toml");
  return config.ok() ? "" : config.error().text;
}

TEST(Config, TakesDefaultsFromTheTable) {
  const auto config = parse_config(kPort, "f.toml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config.value().name, "lyre");
  EXPECT_EQ(config.value().socket_path, "/run/lyre/lyred.sock");
  EXPECT_EQ(config.value().socket_mode, 0660u);
  EXPECT_TRUE(config.value().cores.empty());
  EXPECT_EQ(config.value().idle, IdleMode::kAdaptive);
  EXPECT_EQ(config.value().ports.at(0).mtu_bytes, 1500u);
  EXPECT_FALSE(config.value().ports.at(0).is_trusted);
  EXPECT_TRUE(config.value().ports.at(0).gateways.empty());
  EXPECT_EQ(config.value().lend, Lend::kDomain);
  EXPECT_EQ(config.value().lend_uid, -1);
}

/// The table's defaults are those that the engine documents for itself.
TEST(Config, TcpDefaultsAreTheEngines) {
  const auto config = parse_config(kPort, "f.toml");
  ASSERT_TRUE(config.ok());
  const tcp::ConnectionConfig& ours = config.value().connection;
  const tcp::ConnectionConfig engine;
  EXPECT_EQ(ours.congestion, engine.congestion);
  EXPECT_EQ(ours.ecn, engine.ecn);
  EXPECT_EQ(ours.pacing, engine.pacing);
  EXPECT_EQ(ours.receive_buffer_start_bytes, engine.receive_buffer_start_bytes);
  EXPECT_EQ(ours.user_timeout_ms, engine.user_timeout_ms);
  EXPECT_EQ(ours.connect_timeout_ms, engine.connect_timeout_ms);
  EXPECT_EQ(ours.syn_received_timeout_s, engine.syn_received_timeout_s);
  EXPECT_EQ(ours.rto_min_us, engine.rto_min_us);
  EXPECT_EQ(ours.ack_delay_ms, engine.ack_delay_ms);
  EXPECT_EQ(ours.time_wait_ms, engine.time_wait_ms);
  EXPECT_EQ(ours.receive_buffer_bytes, engine.receive_buffer_bytes);
  EXPECT_EQ(ours.syn_cookies, engine.syn_cookies);
  EXPECT_EQ(ours.nagle, engine.nagle);
  EXPECT_EQ(ours.keepalive, engine.keepalive);
  EXPECT_EQ(ours.keepalive_idle_ms, engine.keepalive_idle_ms);
  EXPECT_EQ(ours.keepalive_interval_ms, engine.keepalive_interval_ms);
  EXPECT_EQ(ours.keepalive_count, engine.keepalive_count);
  EXPECT_EQ(config.value().connections_max, tcp::EngineConfig{}.connections_max);
}

TEST(Config, ReadsEveryKind) {
  const auto config = parse_config(std::string("[daemon]\nname=\"b\"\nlog_level=\"debug\"\n"
                                               "socket_mode=\"0600\"\n"
                                               "[workers]\ncores=[3,1]\nidle=\"busy\"\n"
                                               "awake_ms=250\n"
                                               "[tcp]\nsack=false\ncongestion=\"dctcp\"\n"
                                               "ecn=\"on\"\npacing=true\n"
                                               "rto_min_ms=5\n[clients]\nlend=\"none\"\n") +
                                       kPort +
                                       "gateway=\"10.9.0.254\"\nmtu=9000\ntrusted=true\n"
                                       "[[port]]\nname=\"rail1\"\ndevice=\"0000:00:10.0\"\n"
                                       "address=\"10.8.0.1/16\"\nforce=true\n"
                                       "[[route]]\nto=\"10.20.0.0/16\"\nvia=\"10.8.0.9\"\n"
                                       "port=\"rail1\"\n",
                                   "f.toml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config.value().log_level, LogLevel::kDebug);
  EXPECT_EQ(config.value().socket_mode, 0600u);
  EXPECT_EQ(config.value().cores, (std::vector<uint32_t>{3, 1}));
  EXPECT_EQ(config.value().idle, IdleMode::kBusy);
  EXPECT_EQ(config.value().awake, millis(250));
  EXPECT_FALSE(config.value().connection.sack);
  EXPECT_EQ(config.value().connection.congestion, tcp::CongestionAlgorithm::kDctcp);
  EXPECT_EQ(config.value().connection.ecn, tcp::EcnMode::kOn);
  EXPECT_TRUE(config.value().connection.pacing);
  EXPECT_EQ(config.value().connection.rto_min_us, 5000u);
  EXPECT_EQ(config.value().lend, Lend::kNone);
  EXPECT_EQ(config.value().ports.at(0).gateways.at(0), IpAddress::v4(0x0a0900fe));
  EXPECT_EQ(config.value().ports.at(0).mtu_bytes, 9000u);
  EXPECT_TRUE(config.value().ports.at(0).is_trusted);
  EXPECT_TRUE(config.value().ports.at(1).is_forced);
  EXPECT_EQ(config.value().ports.at(1).addresses.at(0), (Cidr{IpAddress::v4(0x0a080001), 16}));
  EXPECT_EQ(config.value().routes.at(0).port, 1u);
  EXPECT_EQ(config.value().routes.at(0).network.prefix_bits, 16u);
}

TEST(Config, WithoutDomainsEverybodyIsOfOne) {
  const auto config = parse_config(kPort, "f.toml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_FALSE(config.value().has_domains);
  ASSERT_EQ(config.value().domains.size(), 1u);
  const DomainConfig& domain = config.value().domains[0];
  EXPECT_EQ(domain.socket_path, "/run/lyre/lyred.sock");
  EXPECT_EQ(domain.socket_group, "lyre-clients");
  EXPECT_EQ(domain.ports, UINT32_MAX);
  EXPECT_TRUE(domain.may_listen && domain.may_use_low_ports);
  EXPECT_EQ(socket_paths(config.value()), std::vector<std::string>{"/run/lyre/lyred.sock"});
}

// Every worker's pool has what arrived at any port.
TEST(Config, PoolsAreLentToTheOneDomainThatHasAllPorts) {
  const std::string two_ports = std::string(kPort) +
                                "[[port]]\nname=\"rail1\"\ndevice=\"0000:00:10.0\"\n"
                                "address=\"10.8.0.1/16\"\n";
  const std::string domain = "[[domain]]\nname=\"a\"\nsocket=\"/run/lyre/a.sock\"\n";
  const std::string second = "[[domain]]\nname=\"b\"\nsocket=\"/run/lyre/b.sock\"\n";
  const auto lending = [](const std::string& text) {
    const auto config = parse_config(text, "f.toml");
    EXPECT_TRUE(config.ok()) << config.error().text;
    return lending_of(config.value());
  };
  EXPECT_EQ(lending(two_ports), Lend::kDomain);
  EXPECT_EQ(lending(two_ports + domain), Lend::kDomain);
  EXPECT_EQ(lending(two_ports + domain + "ports=[\"rail0\",\"rail1\"]\n"), Lend::kDomain);
  EXPECT_EQ(lending(two_ports + domain + "ports=[\"rail1\"]\n"), Lend::kNone);
  EXPECT_EQ(lending(two_ports + domain + second), Lend::kNone);
}

TEST(Config, ReadsDomains) {
  const auto config = parse_config(std::string(kPort) +
                                       "[[port]]\nname=\"rail1\"\ndevice=\"0000:00:10.0\"\n"
                                       "address=\"10.8.0.1/16\"\n"
                                       "[[domain]]\nname=\"a\"\nsocket=\"/run/lyre/a.sock\"\n"
                                       "group=\"team-a\"\nuids=[1000,1001]\ngids=[7]\n"
                                       "ports=[\"rail1\"]\nlisten=false\nlow_ports=true\n"
                                       "peers=[\"10.8.0.0/16\"]\ncontexts_max=3\nweight=64\n"
                                       "[[domain]]\nname=\"b\"\nsocket=\"/run/lyre/b.sock\"\n",
                                   "f.toml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_TRUE(config.value().has_domains);
  EXPECT_EQ(config.value().socket_mode, 0600u);
  EXPECT_EQ(config.value().socket_group, "");
  const DomainConfig& a = config.value().domains.at(0);
  EXPECT_EQ(a.socket_mode, 0660u);
  EXPECT_EQ(a.uids, (std::vector<uint32_t>{1000, 1001}));
  EXPECT_EQ(a.gids, std::vector<uint32_t>{7});
  EXPECT_EQ(a.ports, 2u);
  EXPECT_FALSE(a.may_listen);
  EXPECT_TRUE(a.may_use_low_ports);
  EXPECT_EQ(a.peers.at(0).prefix_bits, 16u);
  EXPECT_EQ(a.contexts_max, 3u);
  EXPECT_EQ(a.weight, 64u);
  const DomainConfig& b = config.value().domains.at(1);
  EXPECT_EQ(b.ports, UINT32_MAX);
  EXPECT_TRUE(b.may_listen);
  EXPECT_FALSE(b.may_use_low_ports);
  EXPECT_EQ(b.weight, 1u);
  EXPECT_EQ(socket_groups(config.value()), (std::vector<std::string>{"team-a", ""}));
}

// An operator who added a second domain did not learn why a group could not look any more.
TEST(Config, WhatDomainsDoNotUseIsNamed) {
  const std::string port(kPort);
  const std::string a = "[[domain]]\nname=\"a\"\nsocket=\"/run/lyre/a.sock\"\n";
  const std::string b = "[[domain]]\nname=\"b\"\nsocket=\"/run/lyre/b.sock\"\n";
  EXPECT_THAT(error_of("[daemon]\nsocket_group=\"ops\"\nsocket_mode=\"0666\"\n" + port + a),
              AllOf(HasSubstr("f.toml:2: daemon.socket_group: 'ops' is not used with [[domain]]"),
                    HasSubstr("\nf.toml:3: daemon.socket_mode: is not used with [[domain]]")));
  const std::string shipped = "[daemon]\nsocket_group=\"lyre-clients\"\nsocket_mode=\"0660\"\n";
  EXPECT_TRUE(parse_config(shipped + port + a + b, "f.toml").ok());
  EXPECT_THAT(error_of("[clients]\nlend=\"uid\"\nuid=7\n" + port + a + b),
              HasSubstr("f.toml:2: clients.lend: \"uid\" needs one domain with all ports"));
  EXPECT_TRUE(parse_config("[clients]\nlend=\"uid\"\nuid=7\n" + port + a, "f.toml").ok());
  EXPECT_THAT(error_of("[clients]\nuid=7\n" + port),
              HasSubstr("f.toml:2: clients.uid: is used with lend = \"uid\" only"));
  EXPECT_THAT(error_of("[clients]\nlend=\"uid\"\n" + port),
              HasSubstr("f.toml:2: clients.uid: missing for lend"));
}

TEST(Config, AllErrorsOfDomainsAreNamed) {
  const std::string a = "[[domain]]\nname=\"a\"\nsocket=\"/run/lyre/a.sock\"\nports=[\"x\"]\n";
  EXPECT_THAT(error_of(std::string(kPort) + a + a),
              AllOf(HasSubstr("f.toml:8: domain.ports"), HasSubstr("f.toml:10: domain.name"),
                    HasSubstr("f.toml:11: domain.socket"), HasSubstr("f.toml:12: domain.ports")));
}

TEST(Config, WrongDomainsAreNamed) {
  const std::string a =
      std::string(kPort) + "[[domain]]\nname=\"a\"\nsocket=\"/run/lyre/a.sock\"\n";
  EXPECT_EQ(error_of(a + "ports=[\"rail7\"]\n"),
            "f.toml:8: domain.ports: 'rail7' is not a port, allowed: rail0");
  EXPECT_EQ(error_of(a + "[[domain]]\nname=\"a\"\nsocket=\"/run/lyre/b.sock\"\n"),
            "f.toml:9: domain.name: of 'a' is taken by the domain 'a', allowed: another one");
  EXPECT_EQ(error_of(a + "[[domain]]\nname=\"b\"\nsocket=\"/run/lyre/a.sock\"\n"),
            "f.toml:10: domain.socket: of 'b' is taken by the domain 'a', allowed: another one");
  EXPECT_EQ(
      error_of(std::string(kPort) + "[[domain]]\nname=\"a\"\nsocket=\"/run/lyre/lyred.sock\"\n"),
      "f.toml:7: domain.socket: of 'a' is taken by daemon.socket, allowed: another one");
  EXPECT_THAT(error_of(a + "uids=[-1]\n"),
              HasSubstr("f.toml:8: domain.uids: '-1' is out of range"));
  for (const std::string weight : {"0", "65"}) {
    EXPECT_THAT(error_of(a + "weight=" + weight + "\n"),
                HasSubstr("f.toml:8: domain.weight: '" + weight + "' is out of range"));
  }
  EXPECT_THAT(error_of(a + "uids=7\n"), HasSubstr("domain.uids: '7' is not a list, allowed: "));
  EXPECT_THAT(error_of(a + "peers=[\"10.8.0.1/16\"]\n"),
              HasSubstr("domain.peers: '10.8.0.1/16' has bits set behind the prefix"));
  EXPECT_THAT(error_of(a + "ports=[\"a b\"]\n"), HasSubstr("domain.ports: 'a b' is not a name"));
}

// The first uid to attach became it: after each start, the first client was trusted.
TEST(Config, LendingToAUidNeedsTheUid) {
  EXPECT_THAT(error_of(std::string("[clients]\nlend=\"uid\"\n") + kPort),
              StartsWith("f.toml:2: clients.uid: missing for lend = \"uid\", allowed: "));
  EXPECT_EQ(error_of(std::string("[clients]\nlend=\"uid\"\nuid=1000\n") + kPort), "");
}

TEST(Config, LoneAddressMayHaveARouterOutside) {
  const auto config = parse_config(
      "[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=\"10.9.0.7/32\"\ngateway=\"10.0.0.1\"\n", "f");
  EXPECT_TRUE(config.ok());
}

constexpr const char* kBothFamilies =
    "[[port]]\n"
    "name = \"rail0\"\n"
    "device = \"d\"\n"
    "address = [\"10.9.0.1/24\", \"fd00:9::1/64\"]\n";

TEST(Config, ReadsBothFamilies) {
  const auto config = parse_config(std::string(kBothFamilies) +
                                       "gateway=[\"10.9.0.254\", \"fe80::1\"]\naccept_ra=true\n"
                                       "[[route]]\nto=\"fd00:20::/32\"\nvia=\"fd00:9::fe\"\n"
                                       "port=\"rail0\"\n",
                                   "f.toml");
  ASSERT_TRUE(config.ok()) << config.error().text;
  const PortConfig& port = config.value().ports.at(0);
  ASSERT_EQ(port.addresses.size(), 2u);
  EXPECT_EQ(port.addresses[0], *parse_cidr("10.9.0.1/24"));
  EXPECT_EQ(port.addresses[1], *parse_cidr("fd00:9::1/64"));
  ASSERT_EQ(port.gateways.size(), 2u);
  EXPECT_EQ(address_text(port.gateways[1]), "fe80::1");
  EXPECT_TRUE(port.accepts_routers);
  EXPECT_EQ(config.value().routes.at(0).network, *parse_cidr("fd00:20::/32"));
}

TEST(Config, ALoneAddressOfIpv6MayHaveARouterOutside) {
  const auto config = parse_config(
      "[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=\"2001:db8::7/128\"\n"
      "gateway=\"2001:db8:1::1\"\n",
      "f");
  EXPECT_TRUE(config.ok());
}

TEST(ConfigAddresses, HostsAndNetworks) {
  for (const char* good :
       {"10.9.0.1/24", "10.9.0.0/31", "10.9.0.0/32", "240.0.0.1/24", "fd00::1/64", "fd00::/127",
        "fd00::/128", "fe80::1/64", "2001:db8::ffff:ffff:ffff:ffff/64"}) {
    const auto cidr = parse_cidr(good);
    ASSERT_TRUE(cidr) << good;
    EXPECT_TRUE(is_host_address(*cidr)) << good;
  }
  for (const char* bad :
       {"10.9.0.0/24", "10.9.0.255/24", "fd00::/64", "ff02::1/64", "::1/128", "::/128",
        "127.0.0.1/8", "0.0.0.1/8", "224.0.0.1/32", "239.1.2.3/32", "255.255.255.255/32"}) {
    EXPECT_FALSE(is_host_address(*parse_cidr(bad))) << bad;
  }
  for (const char* wrong : {"10.9.0.1/33", "fd00::1/129", "fd00::1", "fd00::1/", "fd00::1/6x",
                            "::ffff:10.0.0.1/104", "fd00:::1/64", "10.9.0/24", "fd00::1/1000"}) {
    EXPECT_FALSE(parse_cidr(wrong)) << wrong;
  }
  EXPECT_TRUE(is_network(*parse_cidr("fd00:20::/32")));
  EXPECT_TRUE(is_network(*parse_cidr("::/0")));
  EXPECT_FALSE(is_network(*parse_cidr("fd00:20::1/32")));
}

struct WrongCase {
  std::string text;
  std::string complaint;  ///< how it starts
};

class WrongConfig : public ::testing::TestWithParam<WrongCase> {};

TEST_P(WrongConfig, NamesLineKeyAndWhatIsAllowed) {
  const std::string error = error_of(GetParam().text);
  EXPECT_THAT(error, StartsWith(GetParam().complaint));
  EXPECT_THAT(error, HasSubstr(", allowed: "));
  EXPECT_THAT(error, Not(HasSubstr("\n")));
}

std::string port_with(const std::string& more) { return kPort + more; }
std::string before_port(const std::string& more) { return more + kPort; }

INSTANTIATE_TEST_SUITE_P(
    Each, WrongConfig,
    ::testing::Values(
        WrongCase{"", "f.toml: port: no port is configured"},
        WrongCase{"[workers\n", "f.toml:1: not TOML:"},
        WrongCase{before_port("\n[wrokers]\n"), "f.toml:2: wrokers: unknown section or key"},
        WrongCase{before_port("name = 1\n"), "f.toml:1: name: unknown section or key"},
        WrongCase{before_port("workers = 1\n"), "f.toml:1: workers: is not a section"},
        WrongCase{before_port("[workers]\ncorse = [1]\n"), "f.toml:2: workers.corse: unknown key"},
        WrongCase{before_port("[workers]\ncores = \"x\"\n"),
                  "f.toml:2: workers.cores: 'x' is not a list of core numbers"},
        WrongCase{before_port("[workers]\ncores = [1, -1]\n"),
                  "f.toml:2: workers.cores: '[ 1, -1 ]' is not a list of core numbers"},
        WrongCase{before_port("[workers]\ncores = [1, 1]\n"),
                  "f.toml:2: workers.cores: '[ 1, 1 ]' names core 1 twice"},
        WrongCase{before_port("[workers]\ncores = []\n"),
                  "f.toml:2: workers.cores: '[]' names no core, allowed: \"auto\" or a list of 1 "},
        WrongCase{before_port("[workers]\nidle = \"lazy\"\n"),
                  "f.toml:2: workers.idle: 'lazy' is not one of the choices"},
        WrongCase{before_port("[memory]\nrx_slots = \"many\"\n"),
                  "f.toml:2: memory.rx_slots: 'many' is not an integer"},
        WrongCase{before_port("[memory]\nrx_slots = 1\n"),
                  "f.toml:2: memory.rx_slots: '1' is out of range"},
        WrongCase{before_port("[daemon]\nsocket = \"x.sock\"\n"),
                  "f.toml:2: daemon.socket: 'x.sock' is not an absolute path"},
        WrongCase{before_port("[daemon]\nsocket = \"/" + std::string(200, 's') + "\"\n"),
                  "f.toml:2: daemon.socket: '/sss"},
        WrongCase{before_port("[daemon]\nsocket_mode = \"0999\"\n"),
                  "f.toml:2: daemon.socket_mode: '0999' is not a file mode"},
        WrongCase{before_port("[daemon]\nsocket_mode = \"0000\"\n"),
                  "f.toml:2: daemon.socket_mode: '0000' lets nobody connect"},
        WrongCase{port_with("[[domain]]\nname=\"a\"\nsocket=\"/a/a\"\nmode=\"0444\"\n"),
                  "f.toml:8: domain.mode: '0444' lets nobody connect"},
        WrongCase{before_port("[daemon]\nsocket_mode = 432\n"),
                  "f.toml:2: daemon.socket_mode: '432' is not a string"},
        WrongCase{before_port("[daemon]\nname = \"a/b\"\n"),
                  "f.toml:2: daemon.name: 'a/b' is not a name"},
        WrongCase{before_port("[tcp]\nsack = 1\n"),
                  "f.toml:2: tcp.sack: '1' is neither true nor false"},
        WrongCase{before_port("[clients]\ncontexts_max = 1000000\n"),
                  "f.toml:2: clients.contexts_max: '1000000' is out of range"},
        WrongCase{"port = 1\n", "f.toml:1: port: is not an array of tables"},
        WrongCase{"[[port]]\nname = \"a\"\naddress = \"10.9.0.1/24\"\n",
                  "f.toml:1: port.device: missing"},
        WrongCase{port_with("address2 = 1\n"), "f.toml:5: port.address2: unknown key"},
        WrongCase{port_with("gateway = \"10.9.1.1\"\n"),
                  "f.toml:5: port.gateway: '10.9.1.1' of 'rail0' does not lie in its network, "
                  "allowed: another host of its network"},
        WrongCase{port_with("gateway = \"ten\"\n"),
                  "f.toml:5: port.gateway: 'ten' is not an address"},
        WrongCase{port_with("mtu = 100\n"), "f.toml:5: port.mtu: '100' is out of range"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=\"10.9.0.1\"\n",
                  "f.toml:4: port.address: '10.9.0.1' is not an address with a prefix"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=\"10.9.0.1/33\"\n",
                  "f.toml:4: port.address: '10.9.0.1/33' is not an address with a prefix"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=\"10.9.0.255/24\"\n",
                  "f.toml:4: port.address: '10.9.0.255/24' is not the address of a host"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=\"127.0.0.1/8\"\n",
                  "f.toml:4: port.address: '127.0.0.1/8' is not the address of a host"},
        WrongCase{port_with("[[port]]\nname=\"rail0\"\ndevice=\"d\"\naddress=\"10.9.0.2/24\"\n"),
                  "f.toml:6: port.name: of 'rail0' is taken by the port 'rail0' in line 2"},
        WrongCase{port_with("[[port]]\nname=\"b\"\ndevice=\"d\"\naddress=\"10.9.0.1/16\"\n"),
                  "f.toml:8: port.address: of 'b' is taken by the port 'rail0' in line 4"},
        WrongCase{port_with("[[port]]\nname=\"b\"\ndevice=\"net_memif0,socket=/y\"\n"
                            "address=\"10.9.0.2/24\"\n"),
                  "f.toml:7: port.device: of 'b' is taken by the port 'rail0' in line 3"},
        WrongCase{port_with("[[route]]\nto=\"10.8.0.0/16\"\nvia=\"10.9.0.9\"\nport=\"r\"\n"),
                  "f.toml:8: route.port: 'r' is not a port, allowed: rail0"},
        WrongCase{
            port_with("[[route]]\nto=\"10.8.0.0/16\"\nvia=\"10.7.0.9\"\nport=\"rail0\"\n"),
            "f.toml:7: route.via: '10.7.0.9' of the port 'rail0' does not lie in its network"},
        WrongCase{port_with("[[route]]\nto=\"10.8.0.0/16\"\nvia=\"10.9.0.1\"\nport=\"rail0\"\n"),
                  "f.toml:7: route.via: '10.9.0.1' of the port 'rail0' is the port's own address"},
        WrongCase{port_with("gateway = \"10.9.0.255\"\n"),
                  "f.toml:5: port.gateway: '10.9.0.255' of 'rail0' is the broadcast or network"},
        WrongCase{port_with("gateway = \"10.9.0.1\"\n"),
                  "f.toml:5: port.gateway: '10.9.0.1' of 'rail0' is the port's own address, "
                  "allowed: another host of its network"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=\"10.9.0.7/32\"\n"
                  "gateway=\"10.9.0.7\"\n",
                  "f.toml:5: port.gateway: '10.9.0.7' of 'a' is the port's own address, "
                  "allowed: another host"},
        WrongCase{port_with("[[route]]\nto=\"10.9.0.0/24\"\nvia=\"10.9.0.9\"\nport=\"rail0\"\n"),
                  "f.toml:6: route.to: is reached through 'rail0'"},
        WrongCase{port_with("[[route]]\nto=\"10.8.0.0/16\"\nvia=\"10.9.0.9\"\nport=\"rail0\"\n"
                            "[[route]]\nto=\"10.8.0.0/16\"\nvia=\"10.9.0.8\"\nport=\"rail0\"\n"),
                  "f.toml:10: route.to: is reached through 'rail0'"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=[\"10.9.0.1/24\",\n\"fd00::1\"]\n",
                  "f.toml:5: port.address: 'fd00::1' is not an address with a prefix"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=[\"fd00::1/64\", \"fd00::1/64\"]\n",
                  "f.toml:4: port.address: 'fd00::1/64' is there twice"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=[]\n",
                  "f.toml:4: port.address: '[]' has no address"},
        WrongCase{"[[port]]\nname=\"a\"\ndevice=\"d\"\naddress=[1]\n",
                  "f.toml:4: port.address: '1' is not a string"},
        WrongCase{kBothFamilies + std::string("gateway=[\"10.9.0.254\", \"10.9.0.253\"]\n"),
                  "f.toml:5: port.gateway: '10.9.0.253' is a second one of its family"},
        WrongCase{port_with("gateway = \"fe80::1\"\n"),
                  "f.toml:5: port.gateway: 'fe80::1' of 'rail0' does not lie in its network"},
        WrongCase{port_with("accept_ra = true\n"),
                  "f.toml:5: port.accept_ra: of 'rail0' is of no use"},
        WrongCase{port_with("super_packets = true\n"),
                  "f.toml:5: port.super_packets: of 'rail0' is true without port.trusted"},
        WrongCase{"[[port]]\nname=\"t\"\ndevice=\"net_tap0\"\naddress=\"10.9.0.1/24\"\n"
                  "trusted = true\nsuper_packets = true\n",
                  "f.toml:6: port.super_packets: of 't' is true for a device that is neither"},
        WrongCase{kBothFamilies + std::string("mtu = 1279\n"),
                  "f.toml:5: port.mtu: of 'rail0' is less than IPv6 needs"},
        WrongCase{kBothFamilies + std::string("[[route]]\nto=\"fd00:20::/32\"\n"
                                              "via=\"10.9.0.9\"\nport=\"rail0\"\n"),
                  "f.toml:7: route.via: and route.to are of different families"},
        WrongCase{kBothFamilies + std::string("gateway=\"fe80::1\"\n[[route]]\nto=\"::/0\"\n"
                                              "via=\"fd00:9::fe\"\nport=\"rail0\"\n"),
                  "f.toml:7: route.to: is reached through 'rail0'"},
        WrongCase{kBothFamilies + std::string("[[route]]\nto=\"fe80::/64\"\n"
                                              "via=\"fd00:9::fe\"\nport=\"rail0\"\n"),
                  "f.toml:6: route.to: is reached through 'rail0'"},
        WrongCase{port_with("[[route]]\nto=\"10.8.0.1/16\"\nvia=\"10.9.0.9\"\nport=\"rail0\"\n"),
                  "f.toml:6: route.to: '10.8.0.1/16' has bits set behind the prefix"}));

// Nothing was left for sessions.
TEST(Config, TooFewSlotsForTheRingsOfThePorts) {
  const std::string few = "[memory]\nrx_slots = 1024\n";
  std::string text;
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    text +=
        "[[port]]\nname=\"p" + n + "\"\ndevice=\"d" + n + "\"\naddress=\"10." + n + ".0.1/24\"\n";
    EXPECT_EQ(error_of(few + text).empty(), i < 6) << i;
  }
  EXPECT_THAT(error_of(few + text),
              StartsWith("f.toml:2: memory.rx_slots: 1024 are too few: the receive rings of the "
                         "ports hold 1024, allowed: 1365 and more"));
  EXPECT_EQ(error_of(text), "");
  const std::string beside_kernel =
      "[[port]]\nname=\"x\"\ndevice=\"net_af_xdp0,iface=e\"\n"
      "address=\"10.9.0.1/24\"\n";
  EXPECT_THAT(error_of("[memory]\nrx_slots = 2048\n" + beside_kernel),
              HasSubstr("hold 2048, allowed: 2730 and more"));
  EXPECT_EQ(error_of(beside_kernel), "");
}

TEST(Config, TooManyPorts) {
  std::string text;
  for (int i = 0; i < 9; ++i) {
    const std::string n = std::to_string(i);
    text +=
        "[[port]]\nname=\"p" + n + "\"\ndevice=\"d" + n + "\"\naddress=\"10." + n + ".0.1/24\"\n";
  }
  EXPECT_THAT(error_of(text),
              AllOf(StartsWith("f.toml:33: port: too many"), HasSubstr("allowed: 8 [[port]]")));
}

TEST(Config, FileThatIsNotThere) {
  const auto config = load_config("/nonexistent/lyred.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().text,
            "/nonexistent/lyred.toml: cannot be read: No such file or directory");
}

TEST(Config, AFolderIsNoFile) {
  const auto config = load_config("/");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().text, "/: cannot be read: Is a directory");
}

/// One `name = value` line of the shipped file, or its commented-out twin.
struct ShippedKey {
  std::string section, name, value;
};

std::vector<ShippedKey> shipped_keys() {
  std::ifstream in(LYRE_SHIPPED_CONFIG);
  std::vector<ShippedKey> keys;
  std::string section;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("# ", 0) == 0 || line.rfind("#  ", 0) == 0) continue;
    if (!line.empty() && line[0] == '#') line.erase(0, 1);
    if (!line.empty() && line[0] == '[') {
      const size_t first = line.find_first_not_of('[');
      section = line.substr(first, line.find(']') - first);
    } else if (const size_t equals = line.find(" = "); equals != std::string::npos) {
      keys.push_back({section, line.substr(0, equals), line.substr(equals + 3)});
    }
  }
  return keys;
}

TEST(ShippedConfig, HasEveryKeyOnceWithItsDefault) {
  std::set<std::string> seen;
  for (const ShippedKey& shipped : shipped_keys()) {
    const std::string full_name = shipped.section + "." + shipped.name;
    EXPECT_TRUE(seen.insert(full_name).second) << full_name << " is there twice";
    for (const Key& key : config_keys()) {
      if (key.section != shipped.section || key.name != shipped.name) continue;
      if (key.default_toml.empty()) continue;
      EXPECT_EQ(shipped.value, key.default_toml) << full_name;
    }
  }
  std::set<std::string> wanted;
  for (const Key& key : config_keys()) {
    wanted.insert(std::string(key.section) + "." + std::string(key.name));
  }
  EXPECT_EQ(seen, wanted);
}

TEST(ShippedConfig, IsRightOnceItsCommentsAreTakenAway) {
  std::string text;
  for (const ShippedKey& key : shipped_keys()) {
    const std::string header =
        key.section == "port" || key.section == "route" || key.section == "domain"
            ? "[[" + key.section + "]]\n"
            : "[" + key.section + "]\n";
    if (text.find(header) == std::string::npos) text += header;
    text += key.name + " = " + key.value + "\n";
  }
  EXPECT_EQ(error_of(text), "");
}

TEST(ShippedConfig, AsShippedOnlyLacksAPort) {
  const auto config = load_config(LYRE_SHIPPED_CONFIG);
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().text, HasSubstr(": port: no port is configured"));
}

TEST(ConfigKeys, EachIsExplained) {
  for (const Key& key : config_keys()) {
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_FALSE(allowed_text(key).empty()) << key.name;
  }
}

// Its buffers are no larger than a page, and those of packet sockets have 16 KiB.
TEST(Config, AnAfXdpPortIsNotBesideLargeBuffers) {
  const std::string xdp =
      "[[port]]\nname=\"x\"\ndevice=\"net_af_xdp0,iface=b\"\naddress=\"10.8.0.1/24\"\n";
  const std::string packet =
      "[[port]]\nname=\"p\"\ndevice=\"net_af_packet0,iface=a\"\naddress=\"10.9.0.1/24\"\n";
  const std::string nic =
      "[[port]]\nname=\"n\"\ndevice=\"0000:00:06.0\"\naddress=\"10.9.0.1/24\"\n";
  const bool is_refused = system_page_bytes() <= 16384;  // the buffers fit larger pages
  for (const std::string& other : {packet, nic + "super_packets = true\n"}) {
    for (const std::string& text : {xdp + other, other + xdp}) {
      const std::string error = error_of(text);
      const bool says_so =
          error.find("is beside a port that takes packets of 64 KiB") != error.npos;
      EXPECT_EQ(says_so, is_refused) << error;
    }
  }
  EXPECT_EQ(error_of(xdp + nic), "");
}

}  // namespace
}  // namespace lyre
