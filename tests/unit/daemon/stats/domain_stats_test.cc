#include "daemon/stats/domain_stats.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>

namespace lyre {
namespace {

/// What tools of the domain see.
struct Shown {
  uint64_t clients = 0;
  uint64_t clients_total = 0;
  bool is_successor = false;
};
Shown shown_by(const DomainStats& domain) {
  void* seen = ::mmap(nullptr, domain.bytes(), PROT_READ, MAP_SHARED, domain.reader_fd(), 0);
  EXPECT_NE(seen, MAP_FAILED);
  if (seen == MAP_FAILED) return {};
  const auto* header = static_cast<const channel::StatsHeader*>(seen);
  const Shown shown{header->clients.get(), header->clients_total.get(), header->is_successor != 0};
  ::munmap(seen, domain.bytes());
  return shown;
}

// It said "0 since start".
TEST(DomainStats, ShowsItsClientsAndHowManyAttached) {
  const StatsOptions options{.daemon_name = "test", .worker_count = 1, .port_count = 1};
  auto all = StatsSegment::create(options);
  ASSERT_TRUE(all.ok());
  auto domain = DomainStats::make(*all, options, 1);
  ASSERT_TRUE(domain.ok());
  EXPECT_EQ(shown_by(*domain).clients_total, 0u);
  domain->refresh(*all, 2, 5);
  EXPECT_EQ(shown_by(*domain).clients, 2u);
  EXPECT_EQ(shown_by(*domain).clients_total, 5u);
}

TEST(DomainStats, ShowsWhetherTheDaemonTookOverFromAnotherProcess) {
  const StatsOptions options{.daemon_name = "test", .worker_count = 1, .port_count = 1};
  auto all = StatsSegment::create(options);
  ASSERT_TRUE(all.ok());
  all->header().is_successor = 1;
  auto domain = DomainStats::make(*all, options, 1);
  ASSERT_TRUE(domain.ok());
  EXPECT_TRUE(shown_by(*domain).is_successor);
}

}  // namespace
}  // namespace lyre
