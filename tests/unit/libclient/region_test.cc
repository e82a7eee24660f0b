#include "libclient/region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

constexpr size_t kRegionBytes = 1 << 16;

/// Memory that a daemon can map, and a session beside it.
class Registration : public ::testing::Test {
 protected:
  Registration() {
    EXPECT_EQ(0, ::ftruncate(file_.get(), kRegionBytes));
    EXPECT_TRUE(memory_.map(file_.get(), kRegionBytes, PROT_READ | PROT_WRITE));
  }
  ~Registration() override { lyre_context_close(context_); }

  FakeDaemon daemon_;
  lyre_context* context_ = daemon_.attach();
  lyre_session* session_ = open_session(daemon_, context_, {1, 1});
  UniqueFd file_{::memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  Mapping memory_;
  lyre_region* region_ = nullptr;
};

// Longer than a daemon may take for an attach: an upgrade pauses it for as long as a NIC's driver
// takes. Its sessions go on.
TEST_F(Registration, WaitsForADaemonThatIsUpgraded) {
  auto upgrade = std::async(std::launch::async, [this] {
    daemon_.take_registration();
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    daemon_.answer_registration(7);
  });
  EXPECT_EQ(0, lyre_register(context_, memory_.data(), kRegionBytes, &region_))
      << lyre_last_error();
  EXPECT_EQ(1, lyre_region_is_direct(region_, nullptr));
  EXPECT_EQ(LYRE_OPEN, lyre_state(session_));
  EXPECT_EQ(0, lyre_poll(context_, 0));
  upgrade.get();
}

// The kernel tells nothing of a mapping whose name is longer than the place for it: such memory was
// copied at each send.
TEST_F(Registration, OfAFileWithALongNameIsDirect) {
  const UniqueFd file(::memfd_create(std::string(200, 'n').c_str(), MFD_CLOEXEC));
  ASSERT_EQ(0, ::ftruncate(file.get(), kRegionBytes));
  Mapping memory;
  ASSERT_TRUE(memory.map(file.get(), kRegionBytes, PROT_READ | PROT_WRITE));
  auto answer = std::async(std::launch::async, [this] {
    daemon_.take_registration();
    daemon_.answer_registration(7);
  });
  EXPECT_EQ(0, lyre_register(context_, memory.data(), kRegionBytes, &region_));
  const char* why = nullptr;
  EXPECT_EQ(1, lyre_region_is_direct(region_, &why)) << why;
  answer.get();
}

TEST_F(Registration, EndsWithADaemonThatHangsUp) {
  auto death = std::async(std::launch::async, [this] {
    daemon_.take_registration();
    daemon_.hang_up();
  });
  EXPECT_EQ(LYRE_E_DAEMON, lyre_register(context_, memory_.data(), kRegionBytes, &region_));
  EXPECT_EQ(nullptr, region_);
  EXPECT_EQ(LYRE_ENDED, lyre_state(session_));
  death.get();
}

}  // namespace
}  // namespace lyre::client
