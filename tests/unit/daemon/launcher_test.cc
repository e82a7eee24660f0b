#include "daemon/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <thread>

#include "libclient/include/lyre/lyre.h"
#include "tests/unit/daemon/daemon_fixture.h"

namespace lyre {
namespace {

using ::testing::HasSubstr;

/// A whole daemon of this process: its NIC API is simulated, all else is what lyred runs.
class LauncherTest : public DaemonTest {
 protected:
  auto start(const Config& config) {
    return Launcher::start(
        config, io_,
        {.start_backend =
             [this](const Config&, const auto&) {
               ++backends_started_;
               return Result<std::unique_ptr<io::Backend>>(std::make_unique<SimBackend>(states_));
             },
         .limit_workers =
             [this](Config& limited, uint32_t least, uint32_t most) {
               limits_.emplace_back(least, most);
               limited.cores.resize(most);
             },
         .drop_privileges =
             [this](const Config&) {
               was_open_at_drop_ = std::filesystem::exists(socket());
               return drop_;
             }});
  }

  /// The configuration, with three workers and a port on `device`.
  Config with_three_workers(const std::string& device, bool has_chosen_cores) const {
    Config three = config(device);
    three.cores.resize(3, three.cores[0]);
    three.has_chosen_cores = has_chosen_cores;
    return three;
  }

  int backends_started_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> limits_;
  bool was_open_at_drop_ = false;
  Status drop_ = Ok{};
};

/// A starved daemon has a minute to answer.
lyre_options options_of(const std::string& socket_path, uint64_t arena_bytes) {
  return {.struct_bytes = sizeof(lyre_options),
          .socket_path = socket_path.c_str(),
          .label = "test",
          .arena_bytes = arena_bytes,
          .patience_ms = 60'000};
}

TEST_F(LauncherTest, ServesAClientAndEndsInOrder) {
  auto launcher = start(config());
  ASSERT_TRUE(launcher.ok()) << launcher.error().text;
  std::thread client([&] {
    const std::string path = socket();
    const lyre_options options = options_of(path, 0);
    lyre_context* context = nullptr;
    EXPECT_EQ(lyre_context_open(&options, &context), 0) << lyre_last_error();
    lyre_port port{.struct_bytes = sizeof port};
    EXPECT_EQ(lyre_port_count(context), 1);
    EXPECT_EQ(lyre_port_info(context, 0, &port), 0);
    EXPECT_STREQ(port.name, "rail0");
    lyre_context_close(context);
    boost::asio::post(io_, [&] { (*launcher)->begin_stop(); });
  });
  io_.run();
  client.join();
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

// A client that hears "no daemon" instead looks for one for ten seconds.
TEST_F(LauncherTest, AShareThatIsUsedUpIsNoMissingDaemon) {
  Config limited = config();
  limited.arena_bytes_per_uid_max = 8 << 20;  // with rings and copies, one context has 5 MiB
  auto launcher = start(limited);
  ASSERT_TRUE(launcher.ok()) << launcher.error().text;
  std::thread client([&] {
    const std::string path = socket();
    const lyre_options options = options_of(path, 1 << 20);
    lyre_context* first = nullptr;
    lyre_context* second = nullptr;
    EXPECT_EQ(lyre_context_open(&options, &first), 0) << lyre_last_error();
    EXPECT_EQ(lyre_context_open(&options, &second), LYRE_E_NORESOURCES);
    EXPECT_THAT(lyre_last_error(), HasSubstr("clients.arena_bytes_per_uid_max"));
    lyre_context_close(first);
    boost::asio::post(io_, [&] { (*launcher)->begin_stop(); });
  });
  io_.run();
  client.join();
}

TEST_F(LauncherTest, ADaemonThatKeepsItsPrivilegesServesNobody) {
  drop_ = Error{EPERM, "a thread keeps them"};
  const auto launcher = start(config());
  ASSERT_FALSE(launcher.ok());
  EXPECT_EQ(launcher.error().text, "a thread keeps them");
  EXPECT_TRUE(was_open_at_drop_);
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(LauncherTest, APortThatCannotBeOpenedIsNamedAndNothingIsServed) {
  const auto launcher = start(config("none"));
  ASSERT_FALSE(launcher.ok());
  EXPECT_THAT(launcher.error().text, HasSubstr("port 'rail0': none: is not there"));
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

// cores = "auto" did not know what a NIC has, and the start failed.
TEST_F(LauncherTest, ChosenWorkersAreNoMoreThanTheQueuePairsOfAPort) {
  const auto launcher = start(with_three_workers("queues:2", true));
  ASSERT_TRUE(launcher.ok()) << launcher.error().text;
  EXPECT_THAT(limits_, ::testing::ElementsAre(std::pair(1u, 2u)));
  EXPECT_EQ(states_.at(0)->info.queue_count, 2u);
}

TEST_F(LauncherTest, WorkersStayWhereQueuePairsSufficeOrTheFileNamesTheCores) {
  for (const char* device : {"queues:3", "sim0"}) {
    const auto launcher = start(with_three_workers(device, true));
    ASSERT_TRUE(launcher.ok()) << launcher.error().text;
    EXPECT_EQ(states_.back()->info.queue_count, 3u) << device;
  }
  const auto launcher = start(with_three_workers("queues:2", false));
  ASSERT_TRUE(launcher.ok()) << launcher.error().text;
  EXPECT_EQ(states_.back()->info.queue_count, 3u) << "as the file says; the port may refuse it";
  EXPECT_THAT(limits_, ::testing::IsEmpty());
}

TEST_F(LauncherTest, WhereAnotherDaemonListensNothingIsStarted) {
  const auto first = start(config());
  ASSERT_TRUE(first.ok()) << first.error().text;
  const auto second = start(config());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().text, HasSubstr("another daemon listens there"));
  EXPECT_EQ(backends_started_, 1);
}

}  // namespace
}  // namespace lyre
