#include "nccl_adapter/transport/verbs/devices.h"

#include <gtest/gtest.h>

#include "tests/unit/nccl_adapter/support/rdma_hosts.h"

namespace lyre::nccl_adapter {
namespace {

class OpenDevices : public ConnectedQueuePairs {};

TEST_F(OpenDevices, FailTheirQueuePairsWhenTheyVanish) {
  network_.remove_devices(0, true);
  pass(kMs + kTickNs);
  EXPECT_EQ(near_->why(), "sim0: the device is gone, or has failed");
  EXPECT_TRUE(hosts_[0]->places(address(1)).empty());
}

TEST_F(OpenDevices, ThatSaidNothingAreMissedWhenDevicesAreLookedFor) {
  network_.remove_devices(0, false);
  pass(kMs + kTickNs);
  EXPECT_FALSE(near_->has_failed());
  look_for_devices(0);
  EXPECT_EQ(near_->why(), "sim0: the device is gone");
}

TEST_F(OpenDevices, ThatAreDeletedAreClosed) {
  network_.delete_devices(0);
  pass(2 * kTickNs);
  EXPECT_EQ(near_->why(), "sim0: the device is gone");
  near_.reset();
  pass(2 * kTickNs);
  EXPECT_EQ(network_.open_contexts(), 1u) << "the kernel would wait for it";
}

TEST_F(OpenDevices, AreOpenedAgainWhenTheyAreBack) {
  network_.remove_devices(0, true);
  pass(kMs + kTickNs);
  network_.return_devices(0);
  near_.reset();
  look_for_devices(0);
  near_ = make(0);
  ASSERT_NE(near_, nullptr);
  far_ = make(1);
  std::string why;
  EXPECT_TRUE(near_->connect(far_->terms(), &why) && far_->connect(near_->terms(), &why)) << why;
}

TEST_F(OpenDevices, AreLookedForOnlyNowAndThen) {
  network_.add_device(0);
  hosts_[0]->look(events_.now_ns());
  EXPECT_EQ(hosts_[0]->places(address(1)).size(), 1u);
  look_for_devices(0);
  EXPECT_EQ(hosts_[0]->places(address(1)).size(), 2u);
}

TEST_F(OpenDevices, SayThatThereIsNone) {
  EXPECT_EQ(hosts_[0]->why_not(), "");
  network_.remove_devices(0, true);
  pass(kMs + kTickNs);
  near_.reset();
  look_for_devices(0);
  EXPECT_EQ(hosts_[0]->why_not(), "this host has no RDMA device");
}

TEST_F(OpenDevices, AreSharedByRailsWhereThereAreMoreOfThese) {
  const std::vector<lyre_port> rails(2);
  EXPECT_EQ(hosts_[0]->places_of(0, rails, address(1)).size(), 1u);
  EXPECT_EQ(hosts_[0]->places_of(1, rails, address(1)).size(), 1u);
  network_.add_device(0);
  look_for_devices(0);
  const auto first = hosts_[0]->places_of(0, rails, address(1));
  const auto second = hosts_[0]->places_of(1, rails, address(1));
  ASSERT_TRUE(first.size() == 1 && second.size() == 1);
  EXPECT_NE(first.front().device, second.front().device);
}

TEST_F(OpenDevices, RegisterPagesOnceForAllWhoUseThem) {
  alignas(4096) static uint8_t pages[3 * 4096];
  Registrations& known = hosts_[0]->places(address(1)).front().device->registrations();
  const Memory first{.data = pages, .bytes = 4096};
  const Memory inside{.data = pages + 100, .bytes = 200};
  const Memory larger{.data = pages, .bytes = 4097};
  const ibv_mr* mr = known.find(&first);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(known.find(&inside), mr);
  EXPECT_NE(known.find(&larger), mr);
  EXPECT_EQ(known.ranges(), 2u);
  known.forget(&first);
  EXPECT_EQ(known.ranges(), 2u) << "another one uses those pages";
  known.forget(&inside);
  known.forget(&inside);
  EXPECT_EQ(known.ranges(), 1u);
  known.forget(&larger);
}

TEST_F(OpenDevices, LetPeersWriteOnlyWhereReceivesAreExposed) {
  alignas(4096) static uint8_t pages[2 * 4096];
  Registrations& known = hosts_[0]->places(address(1)).front().device->registrations();
  const Memory sent{.data = pages, .bytes = sizeof pages};
  const Memory received{.data = pages, .bytes = sizeof pages, .is_exposed = true};
  const ibv_mr* read = known.find(&sent);
  const ibv_mr* written = known.find(&received);
  ASSERT_TRUE(read != nullptr && written != nullptr);
  EXPECT_NE(read->rkey, written->rkey);
  known.withdraw_exposed();
  EXPECT_EQ(known.find(&received), nullptr);
  EXPECT_EQ(known.find(&sent), read);
  known.forget(&received);
  known.forget(&sent);
  EXPECT_EQ(known.ranges(), 0u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
