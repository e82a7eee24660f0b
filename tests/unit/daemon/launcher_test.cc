#include "daemon/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <boost/asio/post.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "libclient/include/lyre/lyre.h"
#include "tests/unit/daemon/sim_backend.h"

namespace lyre {
namespace {

using ::testing::HasSubstr;

/// A whole daemon of this process: its NIC API is simulated, all else is what lyred runs.
class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    char name[] = "/tmp/lyre-launch-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~LauncherTest() override { std::filesystem::remove_all(directory_); }

  std::string socket() const { return directory_ + "/lyred.sock"; }

  Config config(const std::string& device = "sim0") const {
    auto config = parse_config("[daemon]\nsocket = \"" + socket() +
                                   "\"\nsocket_group = \"\"\n[memory]\nrx_slots = 1024\n"
                                   "[tcp]\nconnections_max = 64\n[[port]]\nname = \"rail0\"\n"
                                   "device = \"" +
                                   device + "\"\naddress = \"10.9.0.1/24\"\n",
                               "f.toml");
    EXPECT_TRUE(config.ok()) << config.error().text;
    config->cores = {static_cast<uint32_t>(::sched_getcpu())};
    return *config;
  }

  auto start(const Config& config) {
    return Launcher::start(config, io_, [this](const Config&) {
      ++backends_started_;
      return Result<std::unique_ptr<io::Backend>>(std::make_unique<SimBackend>(states_));
    });
  }

  std::string directory_;
  boost::asio::io_context io_;
  SimBackend::Ports states_;
  int backends_started_ = 0;
};

TEST_F(LauncherTest, ServesAClientAndEndsInOrder) {
  auto launcher = start(config());
  ASSERT_TRUE(launcher.ok()) << launcher.error().text;
  std::thread client([&] {
    const std::string path = socket();
    const lyre_options options{.struct_bytes = sizeof options,
                               .socket_path = path.c_str(),
                               .label = "test",
                               .arena_bytes = 0};
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

TEST_F(LauncherTest, APortThatCannotBeOpenedIsNamedAndNothingIsServed) {
  const auto launcher = start(config("none"));
  ASSERT_FALSE(launcher.ok());
  EXPECT_THAT(launcher.error().text, HasSubstr("port 'rail0': none: is not there"));
  EXPECT_FALSE(std::filesystem::exists(socket()));
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
