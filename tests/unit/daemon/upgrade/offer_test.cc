#include "daemon/upgrade/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace lyre {
namespace {

using ::testing::HasSubstr;

Config offered() {
  Config config;
  config.socket_path = "/run/lyre/lyred.sock";
  config.cores = {0, 1};
  config.ports.resize(2);
  config.ports[0] = {.name = "rail0", .device = "net_memif0,role=server"};
  config.ports[1] = {.name = "rail1", .device = "net_af_packet0,iface=veth0"};
  config.domains = {{.name = "default", .socket_path = "/run/lyre/lyred.sock"}};
  return config;
}

std::vector<uint8_t> offer_of(const Config& config) {
  std::vector<PortRecord> ports;
  for (const PortConfig& port : config.ports) {
    const auto number = static_cast<uint8_t>(ports.size());
    ports.push_back({.device = port.device,
                     .mac = {{2, 0, 0, 0, 0, number}},
                     .rss_key = std::vector<uint8_t>(52u * number, 0xa5)});
  }
  record::Writer out;
  write_offer(config, ports, true, out);
  return out.bytes();
}

TEST(Offer, IsAcceptedByTheSameConfiguration) {
  const auto offer = read_offer(offered(), offer_of(offered()));
  ASSERT_TRUE(offer.ok()) << offer.error().text;
  ASSERT_EQ(offer.value().ports.size(), 2u);
  EXPECT_EQ(offer.value().ports[1].mac.bytes[5], 1);
  EXPECT_TRUE(offer.value().ports[0].rss_key.empty());
  EXPECT_EQ(offer.value().ports[1].rss_key, std::vector<uint8_t>(52, 0xa5));
  EXPECT_TRUE(offer.value().uses_physical_addresses);
  EXPECT_FALSE(offer.value().release.empty());
}

TEST(Offer, TellsTheNumberOfWorkers) {
  const std::vector<uint8_t> bytes = offer_of(offered());
  const auto workers = offered_workers(bytes);
  ASSERT_TRUE(workers.ok()) << workers.error().text;
  EXPECT_EQ(workers.value(), 2u);
  EXPECT_FALSE(offered_workers(std::span(bytes).first(3)).ok());
}

TEST(Offer, WhatDiffersIsNamed) {
  const std::vector<uint8_t> bytes = offer_of(offered());
  const auto complaint_of = [&](const std::function<void(Config&)>& change) {
    Config other = offered();
    change(other);
    const auto offer = read_offer(other, bytes);
    return offer.ok() ? std::string() : offer.error().text;
  };
  EXPECT_THAT(complaint_of([](Config& c) { c.cores.pop_back(); }), HasSubstr("1 workers"));
  EXPECT_THAT(complaint_of([](Config& c) {
                c.cores.pop_back();
                c.has_chosen_cores = true;
              }),
              HasSubstr("workers.cores = \"auto\" chose 1 workers, the running daemon has 2: this "
                        "needs a restart of the daemon, or a list of 2 cores there"));
  EXPECT_THAT(complaint_of([](Config& c) { c.ports.pop_back(); }), HasSubstr("1 ports"));
  EXPECT_THAT(complaint_of([](Config& c) { c.ports[1].device = "net_tap0"; }),
              HasSubstr("port 'rail1' is net_tap0"));
  EXPECT_THAT(complaint_of([](Config& c) { c.domains[0].socket_path = "/run/x"; }),
              HasSubstr("/run/x"));
  EXPECT_THAT(complaint_of([](Config& c) { c.domains[0].name = "x"; }), HasSubstr("domain"));
  EXPECT_THAT(complaint_of([](Config& c) { c.has_domains = true; }), HasSubstr("domains"));
}

TEST(Offer, OneThatIsCutIsRefused) {
  const std::vector<uint8_t> bytes = offer_of(offered());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(read_offer(offered(), std::span(bytes).first(length)).ok()) << length;
  }
}

}  // namespace
}  // namespace lyre
