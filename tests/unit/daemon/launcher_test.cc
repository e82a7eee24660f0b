#include "daemon/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "daemon/handover_versions.h"
#include "daemon/upgrade/offer.h"
#include "daemon/upgrade/upgrade_link.h"
#include "libclient/include/lyre/lyre.h"
#include "tests/unit/daemon/daemon_fixture.h"
#include "tests/unit/daemon/failing_call.h"

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

// The exception ended it without a word.
TEST_F(LauncherTest, ADaemonThatHasNoMemoryToTakeOverSaysSo) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UpgradeLink goes{OwnedFd(ends[0])};
  OwnedFd comes(ends[1]);
  record::Writer offer;
  write_offer(with_three_workers("sim0", true), {}, false, handover_versions(), offer);
  ASSERT_TRUE(goes.send(UpgradeStep::kOffer, offer.bytes()).ok());
  Config one = config();
  one.has_chosen_cores = true;
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      static_cast<void>(Launcher::start(
          one, io_,
          {.start_backend =
               [](const Config&, const auto&) {
                 return Result<std::unique_ptr<io::Backend>>(Error{ENODEV, "none"});
               },
           .limit_workers = [](Config&, uint32_t, uint32_t) { throw std::bad_alloc(); },
           .predecessor = std::move(comes)}));
    } catch (const std::bad_alloc&) {
    }
    ::_exit(2);
  }
  comes.reset();
  const auto said = goes.expect(UpgradeStep::kTakenOver, seconds(60));
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().text, "no memory to take over");
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

TEST_F(LauncherTest, ADaemonWithoutADescriptorToTakeOverByDoesNotStart) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const OwnedFd goes(ends[0]);
  OwnedFd comes(ends[1]);
  std::string said;
  const bool is_called = with_failing_call(SYS_fcntl, EMFILE, [&] {
    const auto launcher =
        Launcher::start(config(), io_, {.start_backend = {}, .predecessor = std::move(comes)});
    said = launcher.ok() ? "" : launcher.error().text;
  });
  if (!is_called) GTEST_SKIP() << "needs filters of system calls";
  EXPECT_THAT(said, HasSubstr("the running daemon cannot be heard"));
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
