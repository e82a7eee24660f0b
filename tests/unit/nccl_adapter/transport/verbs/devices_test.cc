#include "nccl_adapter/transport/verbs/devices.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

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

TEST_F(OpenDevices, ExposeNoByteBesideWhatNcclRegistered) {
  alignas(4096) static uint8_t pages[8 * 4096];
  Registrations& known = hosts_[0]->places(address(1)).front().device->registrations();
  const Memory received{.data = pages + 100, .bytes = 20'000, .is_exposed = true};
  const Memory same = {.data = pages + 100, .bytes = 20'000, .is_exposed = true};
  const ibv_mr* mr = known.find(&received);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, static_cast<void*>(pages + 100));
  EXPECT_EQ(mr->length, 20'000u);
  EXPECT_EQ(known.find(&same), mr);
  known.forget(&received);
  known.forget(&same);
  EXPECT_EQ(known.ranges(), 0u);
}

int g_opened = 0;

ibv_context* open_counted(ibv_device* device) {
  ++g_opened;
  return adapter_sim::rdma_api().open_device(device);
}

TEST_F(OpenDevices, ThatCannotBeUsedAreNotOpenedAtEachLook) {
  VerbsApi api = adapter_sim::rdma_api();
  api.open_device = open_counted;
  api.alloc_pd = [](ibv_context*) -> ibv_pd* { return errno = ENOMEM, nullptr; };
  VerbsDevices refused(api, Settings{});
  caller_ = 0;
  g_opened = 0;
  for (int i = 0; i < 10; ++i) {
    events_.run_until(events_.now_ns() + kVerbsLookNs);
    refused.look(events_.now_ns());
    EXPECT_EQ(refused.why_not(), "sim0 gives no protection domain: Cannot allocate memory");
  }
  EXPECT_EQ(g_opened, 1);
  events_.run_until(events_.now_ns() + kVerbsRefusedNs);
  refused.look(events_.now_ns());
  EXPECT_EQ(g_opened, 2);
}

bool g_has_gid_changed = false;

int report_gid_change(ibv_context*, ibv_async_event* out) {
  out->event_type = IBV_EVENT_GID_CHANGE;
  return std::exchange(g_has_gid_changed, false) ? 0 : -1;
}

TEST_F(OpenDevices, ReadTheirAddressesAgainWhenTheseChange) {
  VerbsApi api = adapter_sim::rdma_api();
  api.get_async_event = report_gid_change;
  VerbsDevices devices(api, Settings{});
  caller_ = 0;
  devices.look(events_.now_ns());
  network_.devices().front()->gid[15] = 77;
  EXPECT_EQ(devices.places(address(1)).front().gid.address, address(0));
  g_has_gid_changed = true;
  devices.progress(events_.now_ns() + kTickNs);
  EXPECT_EQ(devices.places(address(1)).front().gid.address, address(76));
}

}  // namespace
}  // namespace lyre::nccl_adapter
