#include "daemon/assembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <fstream>
#include <memory>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "tests/unit/daemon/daemon_fixture.h"

namespace lyre {
namespace {

class AssemblyTest : public DaemonTest {
 protected:
  AssemblyTest() : reply_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  Result<std::unique_ptr<Assembly>> make(const Config& config) {
    return Assembly::make(config, std::make_unique<SimBackend>(states_),
                          {.io = io_, .mappings = mappings_}, reply_.get());
  }

  /// Two ports, a domain that names all of its rules, and one that names none.
  Result<Config> two_domains() const {
    auto config = parse_config(
        "[daemon]\nsocket = \"" + socket() +
            "\"\n[memory]\nrx_slots = 1024\n[tcp]\nconnections_max = 64\n"
            "[[port]]\nname = \"rail0\"\ndevice = \"sim0\"\naddress = \"10.9.0.1/24\"\n"
            "[[port]]\nname = \"rail1\"\ndevice = \"sim1\"\naddress = \"10.10.0.1/24\"\n"
            "[[domain]]\nname = \"a\"\nsocket = \"" +
            directory_ +
            "/a.sock\"\nports = [\"rail1\"]\nweight = 8\nlisten = false\nlow_ports = true\n"
            "peers = [\"10.10.0.0/16\"]\nconnections_max = 5\nlisteners_max = 3\n"
            "[[domain]]\nname = \"b\"\nsocket = \"" +
            directory_ + "/b.sock\"\n",
        "f.toml");
    if (config.ok()) config->cores = {static_cast<uint32_t>(::sched_getcpu())};
    return config;
  }

  OwnedFd reply_;
};

TEST_F(AssemblyTest, ServesNobodyBeforeItIsStarted) {
  const Config wanted = config();
  auto parts = make(wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  Assembly& made = **parts;
  EXPECT_FALSE(std::filesystem::exists(socket()));
  EXPECT_EQ(made.threads().turns(0), 0u);

  ASSERT_TRUE(made.open().ok());
  EXPECT_EQ(made.threads().turns(0), 0u);
  ASSERT_TRUE(made.start().ok());
  EXPECT_TRUE(std::filesystem::exists(socket()));
  EXPECT_TRUE(run_until([&] { return made.threads().turns(0) > 0; }));
  parts->reset();
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(AssemblyTest, WorkersOfADaemonThatTakesOverMakeNoTurnBeforeTheyMay) {
  const Config wanted = config();
  auto parts = make(wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  WorkerThreads& threads = (*parts)->threads();
  threads.hold();
  ASSERT_TRUE((*parts)->start().ok());
  ASSERT_TRUE(threads.pause());  // it has come to its first turn
  ASSERT_TRUE(threads.pause());  // and stays there
  EXPECT_EQ(threads.turns(0), 0u);
  threads.resume();
  EXPECT_TRUE(run_until([&] { return threads.turns(0) > 0; }));
}

TEST_F(AssemblyTest, TheStatsSegmentShowsTheConfigurationAndThePorts) {
  const Config wanted = config();
  auto parts = make(wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  const channel::StatsHeader& header = (*parts)->stats().header();
  EXPECT_STREQ(header.daemon_name, "lyre");
  EXPECT_STREQ(header.idle_policy, "adaptive");
  EXPECT_EQ(header.worker_count, 1u);
  EXPECT_EQ(header.port_count, 1u);
  EXPECT_EQ(header.hugepages, 0u);
  ASSERT_EQ(states_.size(), 1u);
  EXPECT_EQ(states_[0]->options.device, "sim0");
}

TEST_F(AssemblyTest, TheStatsSegmentHasTheClockOfTheStart) {
  const Config wanted = config();
  const Nanos before = monotonic_now();
  auto parts = make(wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  const channel::StatsHeader& header = (*parts)->stats().header();
  EXPECT_NE(header.unix_offset_ns, 0);
  EXPECT_GE(header.started_unix_ns, before.value + header.unix_offset_ns);
  EXPECT_LE(header.started_unix_ns, monotonic_now().value + header.unix_offset_ns);
}

TEST_F(AssemblyTest, TheStatsSegmentTellsAnUpgradeFromAStart) {
  const Config wanted = config();
  auto parts = make(wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  EXPECT_EQ((*parts)->stats().header().is_successor, 0u);
  parts->reset();
  parts = Assembly::prepare(wanted, std::make_unique<SimBackend>(states_));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  const Assembly::Heritage heritage{.ports = {{.device = "sim0", .mac = {}, .rss_key = {}}},
                                    .secret = {}};
  const Status done =
      (*parts)->complete({.io = io_, .mappings = mappings_}, reply_.get(), &heritage);
  ASSERT_TRUE(done.ok()) << done.error().text;
  EXPECT_EQ((*parts)->stats().header().is_successor, 1u);
}

TEST_F(AssemblyTest, ListenersHaveRowsBesideThoseOfManyConnections) {
  Config wanted = config();
  wanted.connections_max = kSessionRowsMax + 1;
  auto parts = make(wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  EXPECT_EQ((*parts)->stats().header().session_rows,
            kSessionRowsMax + worker::WorkerConfig{}.listeners_max);
}

TEST_F(AssemblyTest, TheRulesOfADomainAreThoseOfTheFile) {
  auto wanted = two_domains();
  ASSERT_TRUE(wanted.ok()) << wanted.error().text;
  auto parts = make(*wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  ASSERT_EQ((*parts)->rules().size(), 2u);

  const worker::DomainRules& a = (*parts)->rules()[0];
  EXPECT_FALSE(a.allows_port(0));
  EXPECT_TRUE(a.allows_port(1));
  EXPECT_EQ(a.weight, 8u);
  EXPECT_FALSE(a.may_listen);
  EXPECT_TRUE(a.allows_local(80));
  EXPECT_FALSE(a.allows_peer(IpAddress::v4(0x0a090002)));
  EXPECT_TRUE(a.allows_peer(IpAddress::v4(0x0a0a0002)));
  EXPECT_EQ(a.sessions_max, 5u);
  EXPECT_EQ(a.listeners_max, 3u);

  const worker::DomainRules& b = (*parts)->rules()[1];
  EXPECT_TRUE(b.allows_port(0));
  EXPECT_EQ(b.weight, 1u);
  EXPECT_TRUE(b.may_listen);
  EXPECT_FALSE(b.allows_local(80));
}

TEST_F(AssemblyTest, APortThatCannotBeOpenedIsNamed) {
  const Config wanted = config("none");
  const auto parts = make(wanted);
  ASSERT_FALSE(parts.ok());
  EXPECT_EQ(parts.error().text, "f.toml:8: port 'rail0': none: is not there");
}

TEST_F(AssemblyTest, ASocketThatCannotBeMadeIsNamed) {
  const Config wanted = config();
  auto parts = make(wanted);
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  std::ofstream(socket()) << "an operator's file";
  const Status opened = (*parts)->open();
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().text, ::testing::HasSubstr("exists and is not a socket"));
}

}  // namespace
}  // namespace lyre
