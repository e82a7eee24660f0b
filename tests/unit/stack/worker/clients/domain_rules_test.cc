#include "stack/worker/clients/domain_rules.h"

#include <gtest/gtest.h>

namespace lyre::worker {
namespace {

TEST(DomainRules, WithoutConfigurationEverythingIsAllowed) {
  const DomainRules rules;
  EXPECT_TRUE(rules.may_listen);
  EXPECT_TRUE(rules.allows_port(31));
  EXPECT_TRUE(rules.allows_local(22));
  EXPECT_TRUE(rules.allows_peer(IpAddress::v4(0x01020304)));
}

TEST(DomainRules, OnlyTheNamedPortsMayBeUsed) {
  DomainRules rules;
  rules.ports = 1u << 2;
  EXPECT_TRUE(rules.allows_port(2));
  EXPECT_FALSE(rules.allows_port(0));
  EXPECT_FALSE(rules.allows_port(3));
}

TEST(DomainRules, LowPortsCanBeForbidden) {
  DomainRules rules;
  rules.may_use_low_ports = false;
  EXPECT_FALSE(rules.allows_local(DomainRules::kLowPorts - 1));
  EXPECT_TRUE(rules.allows_local(DomainRules::kLowPorts));
  EXPECT_TRUE(rules.allows_local(0)) << "the worker chooses a port, which is not low";
}

TEST(DomainRules, PeersAreThoseOfTheNetworks) {
  DomainRules rules;
  rules.peers = {InterfaceAddress::of(IpAddress::v4(0x0a010000), 16),
                 InterfaceAddress::of(IpAddress::v4(0x0a020304), 32)};
  EXPECT_TRUE(rules.allows_peer(IpAddress::v4(0x0a01ffff)));
  EXPECT_TRUE(rules.allows_peer(IpAddress::v4(0x0a020304)));
  EXPECT_FALSE(rules.allows_peer(IpAddress::v4(0x0a020305)));
}

TEST(DomainRules, OneOfSeveralDomainsIsAUserOfItsOwn) {
  constexpr uint32_t kUid = 1000;
  DomainRules rules;
  rules.index = 3;
  EXPECT_EQ(DomainRules::user_of(nullptr, kUid), kUid);
  EXPECT_EQ(DomainRules::user_of(&rules, kUid), kUid);
  rules.has_account = true;
  EXPECT_EQ(DomainRules::user_of(&rules, kUid), DomainRules::user_of(&rules, kUid + 1));
  EXPECT_GT(DomainRules::user_of(&rules, kUid), UINT32_MAX) << "no uid";
}

}  // namespace
}  // namespace lyre::worker
