#include "daemon/upgrade/offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "daemon/handover_versions.h"

namespace lyre {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Of a release whose records of that kind have a later version.
KindVersions later_versions(record::Kind kind) {
  KindVersions out = least_versions();
  const auto number = static_cast<size_t>(kind);
  out.resize(std::max(out.size(), number + 1));
  ++out[number];
  return out;
}

/// The daemon's records as their next version would have them, with more at the end of each.
std::vector<uint8_t> grown(std::span<const uint8_t> records) {
  std::vector<uint8_t> out;
  while (!records.empty()) {
    const size_t count = record::kHeaderBytes + records[4];  // all are short
    const size_t begin = out.size();
    out.insert(out.end(), records.begin(), records.begin() + static_cast<ptrdiff_t>(count));
    out.insert(out.end(), 3, 0x5a);
    out[begin + 2] = kOfferVersion + 1;
    out[begin + 4] = static_cast<uint8_t>(out[begin + 4] + 3);
    records = records.subspan(count);
  }
  return out;
}

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

std::vector<uint8_t> offer_of(const Config& config, const KindVersions& least = least_versions()) {
  std::vector<PortRecord> ports;
  for (const PortConfig& port : config.ports) {
    const auto number = static_cast<uint8_t>(ports.size());
    ports.push_back({.device = port.device,
                     .mac = {{2, 0, 0, 0, 0, number}},
                     .rss_key = std::vector<uint8_t>(52u * number, 0xa5)});
  }
  record::Writer out;
  write_offer(config, ports, true, least, out);
  return out.bytes();
}

TEST(Offer, IsAcceptedByTheSameConfiguration) {
  const auto offer = read_offer(offered(), offer_of(offered()), handover_versions());
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
  const auto workers = offered_workers(bytes, handover_versions());
  ASSERT_TRUE(workers.ok()) << workers.error().text;
  EXPECT_EQ(workers.value(), 2u);
  EXPECT_FALSE(offered_workers(std::span(bytes).first(3), handover_versions()).ok());
}

TEST(Offer, WhatDiffersIsNamed) {
  const std::vector<uint8_t> bytes = offer_of(offered());
  const auto complaint_of = [&](const std::function<void(Config&)>& change) {
    Config other = offered();
    change(other);
    const auto offer = read_offer(other, bytes, handover_versions());
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
    const auto cut = std::span(bytes).first(length);
    EXPECT_FALSE(read_offer(offered(), cut, handover_versions()).ok()) << length;
  }
}

// The older release said that the records were not right.
TEST(Offer, OfALaterReleaseWhoseRecordsAreReadIsAccepted) {
  const std::vector<uint8_t> bytes = grown(offer_of(offered()));
  const auto workers = offered_workers(bytes, handover_versions());
  ASSERT_TRUE(workers.ok()) << workers.error().text;
  EXPECT_EQ(workers.value(), 2u);
  const auto offer = read_offer(offered(), bytes, handover_versions());
  ASSERT_TRUE(offer.ok()) << offer.error().text;
  ASSERT_EQ(offer.value().ports.size(), 2u);
  EXPECT_EQ(offer.value().ports[1].rss_key, std::vector<uint8_t>(52, 0xa5));
}

// Those of workers were refused when the ports had changed hands.
TEST(Offer, RecordsThatThisReleaseDoesNotReadAreRefusedByTheNameOfTheOther) {
  for (uint16_t kind = 1; kind <= record::kKindsEnd; ++kind) {
    if (std::ranges::count(kOfferKinds, record::Kind{kind}) != 0) continue;
    const KindVersions later = later_versions(record::Kind{kind});
    const std::vector<uint8_t> plain = offer_of(offered(), later);
    for (const std::vector<uint8_t>& bytes : {plain, grown(plain)}) {
      const auto workers = offered_workers(bytes, handover_versions());
      ASSERT_FALSE(workers.ok()) << kind;
      EXPECT_EQ(workers.error().code, EPROTONOSUPPORT);
      EXPECT_THAT(workers.error().text,
                  AllOf(StartsWith("the running daemon is release "),
                        HasSubstr(", which writes records that this release "),
                        HasSubstr(" does not read: restart it")));
      const auto offer = read_offer(offered(), bytes, handover_versions());
      ASSERT_FALSE(offer.ok()) << kind;
      EXPECT_EQ(offer.error().text, workers.error().text);
    }
    EXPECT_TRUE(read_offer(offered(), offer_of(offered()), later).ok()) << kind;
  }
}

/// Of a release whose offers and answers have an earlier version.
KindVersions versions_of_earlier_offers() {
  KindVersions out = handover_versions();
  for (const record::Kind kind : kOfferKinds) --out[static_cast<size_t>(kind)];
  return out;
}

// They were listed with their own version, so that an offer could never grow.
TEST(Offer, AReleaseWhoseOffersAreEarlierAcceptsIt) {
  const auto offer = read_offer(offered(), offer_of(offered()), versions_of_earlier_offers());
  EXPECT_TRUE(offer.ok()) << offer.error().text;
}

TEST(Offer, AKindThatTheOtherReleaseDoesNotWriteIsAccepted) {
  KindVersions least = least_versions();
  least.push_back(0);
  least[static_cast<size_t>(record::Kind::kLoan)] = 0;
  EXPECT_TRUE(read_offer(offered(), offer_of(offered(), least), handover_versions()).ok());
}

std::vector<uint8_t> prepared_of(const KindVersions& newest) {
  record::Writer out;
  write_prepared(newest, out);
  return out.bytes();
}

TEST(Prepared, TellsTheReleaseThatComes) {
  const std::vector<uint8_t> bytes = prepared_of(handover_versions());
  const std::vector<uint8_t> later = prepared_of(later_versions(record::Kind::kSession));
  const std::vector<uint8_t> earlier = prepared_of(versions_of_earlier_offers());
  for (const std::vector<uint8_t>& each : {bytes, grown(bytes), later, earlier}) {
    const auto release = read_prepared(each, least_versions());
    ASSERT_TRUE(release.ok()) << release.error().text;
    EXPECT_FALSE(release.value().empty());
  }
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(read_prepared(std::span(bytes).first(length), least_versions()).ok()) << length;
  }
}

TEST(Prepared, OneThatReadsTooLittleIsRefusedByItsName) {
  const auto release =
      read_prepared(prepared_of(handover_versions()), later_versions(record::Kind::kConnection));
  ASSERT_FALSE(release.ok());
  EXPECT_EQ(release.error().code, EPROTONOSUPPORT);
  EXPECT_THAT(release.error().text,
              AllOf(StartsWith("the new process is release "),
                    HasSubstr(", which does not read the records that this release ")));
}

}  // namespace
}  // namespace lyre
