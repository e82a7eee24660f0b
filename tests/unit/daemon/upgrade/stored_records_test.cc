#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/base/descriptor_queue.h"
#include "daemon/base/shared_memory.h"
#include "daemon/control/context_registry.h"
#include "daemon/handover_versions.h"
#include "daemon/protocol/handover_records.h"
#include "daemon/upgrade/offer.h"
#include "stack/channel/ring.h"
#include "tests/unit/daemon/fake_workers.h"

namespace lyre {
namespace {

// The values are those of the stored records, and do not follow the code.
constexpr uint32_t kStoredWorkers = 2;
constexpr uint64_t kStoredPage = 4096;
constexpr uint64_t kStoredArena = 1 << 20;
constexpr uint64_t kStoredCopies = 2 << 20;
constexpr uint32_t kStoredRegion = worker::kContextsMax + 3;
constexpr uint32_t kStaying = 0, kLeaving = 2;
constexpr IpAddress kStoredAddress{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kStoredLinkLocal{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2}};

const RegistryRecord kStoredRegistry{.next_generation = 77,
                                     .region_uses = 5,
                                     .secret = {0x1122334455667788, 0x99aabbccddeeff00},
                                     .client_count = 2,
                                     .region_count = 2,
                                     .attached_count = 1,
                                     .has_helper = true,
                                     .verified_addresses = {{}, {kStoredAddress, kStoredLinkLocal}},
                                     .left_count = 1};

ClientRecord stored_client(uint32_t context) {
  const bool is_attached = context == kStaying;
  return {.context = context,
          .generation = is_attached ? 76u : 12u,
          .pid = 4242,
          .uid = 1001,
          .gid = 1002,
          .label = "rank 3",
          .abi_version = 7,
          .domain = is_attached ? 1 : kNoDomain,
          .registered_bytes_max = uint64_t{1} << 33,
          .arena_bytes = kStoredArena,
          .copy_bytes = kStoredCopies,
          .page_bytes = kStoredPage,
          .is_attached = is_attached,
          .held_by = is_attached ? 0u : 0b10u};
}

RegionRecord stored_region(uint32_t number) {
  const bool is_leaving = number == 1;
  return {.name = kStoredRegion + number,
          .context = kStaying,
          .offset = number * kStoredPage,
          .bytes = 2 * kStoredPage,
          .page_bytes = kStoredPage,
          .is_leaving = is_leaving,
          .pending = is_leaving ? 0b01u : 0u};
}

constexpr uint64_t kStoredLeftBytes = 3 * kStoredPage;
const LeftMemoryRecord kStoredLeft{.user = 1003,
                                   .context = 1,
                                   .domain = kNoDomain,
                                   .bytes = kStoredLeftBytes,
                                   .counted_bytes = 2 * kStoredPage};

const AttachedRecord kStoredAttached{.socket = 1,
                                     .context = kStaying,
                                     .label = "lyre perf",
                                     .has_process = true,
                                     .control_version = 4};

Config stored_config() {
  Config config;
  config.socket_path = "/run/lyre/lyred.sock";
  config.has_domains = true;
  config.cores = {0, 1};
  config.ports.resize(2);
  config.ports[0] = {.name = "rail0", .device = "net_memif0,role=server"};
  config.ports[1] = {.name = "rail1", .device = "net_af_packet0,iface=veth0"};
  config.domains = {{.name = "blue", .socket_path = "/run/lyre/blue.sock"}};
  return config;
}

/// Version 4 has RSS keys, of ports that have one.
std::vector<PortRecord> stored_ports(uint16_t version = kOfferVersion) {
  const std::vector<PortConfig> ports = stored_config().ports;
  const std::vector<uint8_t> key{0x6d, 0x5a, 0x56, 0xda};
  return {{.device = ports[0].device, .mac = {{2, 0, 0, 0, 0, 1}}, .rss_key = {}},
          {.device = ports[1].device,
           .mac = {{2, 0, 0, 0, 0, 2}},
           .rss_key = version >= 4 ? key : std::vector<uint8_t>{}}};
}

std::vector<uint8_t> state_now() {
  record::Writer out;
  const auto add = [&](record::Kind kind, auto list, const auto& record) {
    out.add(kind, kDaemonHandoverVersion,
            [&](record::FieldWriter& fields) { list(fields, record); });
  };
  const auto client = [](auto& fields, const auto& each) { list_client(fields, each); };
  const auto region = [](auto& fields, const auto& each) { list_region(fields, each); };
  add(
      record::Kind::kRegistry, [](auto& fields, const auto& it) { list_registry(fields, it); },
      kStoredRegistry);
  for (const uint32_t context : {kStaying, kLeaving}) {
    add(record::Kind::kClient, client, stored_client(context));
  }
  add(
      record::Kind::kLeftMemory, [](auto& fields, const auto& it) { list_left_memory(fields, it); },
      kStoredLeft);
  for (const uint32_t number : {0u, 1u}) {
    add(record::Kind::kRegion, region, stored_region(number));
  }
  add(
      record::Kind::kAttached, [](auto& fields, const auto& it) { list_attached(fields, it); },
      kStoredAttached);
  return out.bytes();
}

std::vector<uint8_t> offer_now() {
  record::Writer out;
  write_offer(stored_config(), stored_ports(), true, least_versions(), out);
  return out.bytes();
}

/// LYRE_WRITE_RECORDS=1 writes those of the present version, `newest`, first.
std::vector<uint8_t> stored(const std::string& name, uint16_t version, uint16_t newest,
                            const std::vector<uint8_t>& now) {
  const std::string path =
      std::string(LYRE_DAEMON_RECORDS) + "/v" + std::to_string(version) + "_" + name;
  if (std::getenv("LYRE_WRITE_RECORDS") != nullptr && version == newest) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(now.data()), static_cast<std::streamsize>(now.size()));
  }
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add_memory(DescriptorQueue& out, uint64_t bytes) {
  auto memory = SharedMemory::create("stored", bytes, SharedWith::kWriters);
  ASSERT_TRUE(memory.ok());
  out.add(OwnedFd(::dup(memory->fd())));
}

/// In the order of handover_records.h, those of clients, of ended ones, and of regions.
DescriptorQueue stored_descriptors(uint16_t version) {
  DescriptorQueue out;
  const auto layout =
      channel::ContextLayout::of(kStoredWorkers, kStoredArena, kStoredCopies, kStoredPage);
  for (int client = 0; client < 2; ++client) {
    add_memory(out, layout.total_bytes);
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    for (const int end : ends) out.add(OwnedFd(end));
    for (uint32_t i = 0; i < kStoredWorkers; ++i) out.add(OwnedFd(::eventfd(0, EFD_CLOEXEC)));
  }
  if (version >= 5) add_memory(out, kStoredLeftBytes);
  for (int region = 0; region < 2; ++region) add_memory(out, 4 * kStoredPage);
  return out;
}

RegistryOptions stored_options() {
  RegistryOptions options;
  options.contexts_max = 4;
  options.page_bytes = kStoredPage;
  return options;
}

void expect_taken_over(ContextRegistry& registry, const worker::DomainRules& domain) {
  EXPECT_EQ(registry.attached_count(), 1u);
  EXPECT_EQ(registry.held_count(), 2u);
  EXPECT_EQ(registry.attached_count_of(domain), 1u);
  EXPECT_EQ(registry.regions().count(kStaying), 2u);
  const auto commands = registry.handover_commands(0);  // it still has the region that leaves
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[0].generation, 76u);
  EXPECT_EQ(commands[0].uid, 1001u);
  EXPECT_STREQ(commands[0].label.data(), "rank 3");
  EXPECT_EQ(commands[1].region, kStoredRegion);
  EXPECT_EQ(commands[2].region, kStoredRegion + 1);
  const auto others = registry.handover_commands(1);  // and this one the client that left
  ASSERT_EQ(others.size(), 3u);
  EXPECT_EQ(others[1].context, kLeaving);
}

// The records of every version that was released are taken for ever.
TEST(StoredRecords, TheStateOfEveryVersionIsTakenOver) {
  if (static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) != kStoredPage) {
    GTEST_SKIP() << "the records are of a machine with pages of 4 KiB";
  }
  for (uint16_t version = 1; version <= kDaemonHandoverVersion; ++version) {
    const auto bytes = stored("state", version, kDaemonHandoverVersion, state_now());
    record::Reader in(bytes);
    RegistryRecord facts;
    ASSERT_TRUE(in.take(record::Kind::kRegistry, kDaemonHandoverVersion,
                        [&](record::FieldReader& fields) { list_registry(fields, facts); }))
        << version;
    EXPECT_EQ(facts.secret.k0, kStoredRegistry.secret.k0);
    EXPECT_EQ(facts.secret.k1, kStoredRegistry.secret.k1);
    EXPECT_TRUE(facts.has_helper);
    const auto verified =
        version < 3 ? std::vector<std::vector<IpAddress>>{} : kStoredRegistry.verified_addresses;
    EXPECT_EQ(facts.verified_addresses, verified);
    EXPECT_EQ(facts.left_count, version < 5 ? 0u : 1u);
    FakeWorkers workers(kStoredWorkers);
    ContextRegistry registry(workers, stored_options());
    std::vector<worker::DomainRules> domains(2);
    domains[1].index = 1;
    DescriptorQueue descriptors = stored_descriptors(version);
    const Status taken = registry.take_over(facts, domains, in, descriptors);
    ASSERT_TRUE(taken.ok()) << taken.error().text;
    expect_taken_over(registry, domains[1]);
    AttachedRecord attached;
    ASSERT_TRUE(in.take(record::Kind::kAttached, kDaemonHandoverVersion,
                        [&](record::FieldReader& fields) { list_attached(fields, attached); }));
    EXPECT_EQ(attached.socket, 1u);
    EXPECT_EQ(attached.label, "lyre perf");
    EXPECT_TRUE(attached.has_process);
    EXPECT_EQ(attached.control_version, 4);
    EXPECT_TRUE(in.is_at_end());
    EXPECT_TRUE(descriptors.empty());
  }
}

TEST(StoredRecords, TheOfferOfEveryVersionIsUnderstood) {
  for (uint16_t version = 1; version <= kOfferVersion; ++version) {
    const auto bytes = stored("offer", version, kOfferVersion, offer_now());
    auto offer = read_offer(stored_config(), bytes, handover_versions());
    ASSERT_TRUE(offer.ok()) << offer.error().text;
    EXPECT_EQ(offer->ports, stored_ports(version));
    EXPECT_EQ(offer->uses_physical_addresses, version >= 2);
    EXPECT_FALSE(offer->release.empty());
  }
}

}  // namespace
}  // namespace lyre
