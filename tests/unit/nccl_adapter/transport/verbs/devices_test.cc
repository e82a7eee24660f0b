#include "nccl_adapter/transport/verbs/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/transport/verbs/memory_error.h"
#include "tests/unit/nccl_adapter/support/rdma_hosts.h"

namespace lyre::nccl_adapter {
namespace {

class OpenDevices : public ConnectedQueuePairs {};

TEST_F(OpenDevices, HaveTheAddressesOfTheirPortsUntilTheyAreLost) {
  EXPECT_TRUE(hosts_[0]->have(address(0)));
  EXPECT_FALSE(hosts_[0]->have(address(1)));
  network_.remove_devices(0, true);
  pass(kMs + kTickNs);
  EXPECT_FALSE(hosts_[0]->have(address(0)));
}

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
  EXPECT_EQ(hosts_[0]->offers(0, rails, address(1)).best, 1u);
  EXPECT_EQ(hosts_[0]->offers(1, rails, address(1)).best, 1u);
  network_.add_device(0);
  look_for_devices(0);
  const VerbsChoice first = hosts_[0]->offers(0, rails, address(1));
  const VerbsChoice second = hosts_[0]->offers(1, rails, address(1));
  ASSERT_TRUE(first.best == 1 && second.best == 1);
  EXPECT_EQ(first.places.size(), 2u) << "the other one is tried after it";
  EXPECT_NE(first.places.front().device, second.places.front().device);
}

/// The addresses of four devices of a host, in the order in which they answer.
class AnsweringDevices : public RdmaHosts {
 protected:
  AnsweringDevices() {
    for (int i = 0; i < 3; ++i) network_.add_device(0);
  }
  static Address address_in(uint8_t network, uint8_t node) {
    Address made = address(0);
    made[14] = network;
    made[15] = node;
    return made;
  }
  /// Of device number i, before it is opened.
  void set_address(size_t i, const Address& to) {
    size_t index = 0;
    for (const auto& device : network_.devices()) {
      if (device->host != 0 || index++ != i) continue;
      std::copy(to.begin(), to.end(), device->gid);
    }
  }
  std::vector<Address> answers(size_t rail, const Address& remote) {
    const std::vector<lyre_port> rails(4);
    caller_ = 0;
    VerbsDevices devices(adapter_sim::rdma_api(), Settings{});
    devices.look(events_.now_ns());
    const VerbsChoice choice = devices.answers(rail, rails, remote);
    EXPECT_EQ(choice.best, 1u);
    EXPECT_EQ(choice.places.size(), 4u);
    std::vector<Address> all;
    for (const VerbsPlace& place : choice.places) all.push_back(place.gid.address);
    return all;
  }
};

TEST_F(AnsweringDevices, OfOneNetworkAreChosenByTheRail) {
  for (uint8_t i = 0; i < 4; ++i) set_address(i, address_in(0, static_cast<uint8_t>(1 + i)));
  for (uint8_t rail = 0; rail < 4; ++rail) {
    const Address own = address_in(0, static_cast<uint8_t>(1 + rail));
    EXPECT_EQ(answers(rail, address_in(0, 5)).front(), own) << "in the network of the peer";
    EXPECT_EQ(answers(rail, address_in(7, 5)).front(), own) << "in none that is known";
  }
}

TEST_F(AnsweringDevices, OfSeparateNetworksAreChosenByThePeersAddress) {
  for (uint8_t rail = 0; rail < 4; ++rail) {
    EXPECT_EQ(answers(rail, address_in(2, 5)).front(), address_in(2, 1));
  }
  EXPECT_EQ(answers(3, address_in(2, 5))[1], address_in(3, 1)) << "the rail's comes next";
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

// As where RLIMIT_MEMLOCK is used up.
TEST(Registrations, ThatFailAreLoggedOnce) {
  static uint8_t bytes[2][20'000];
  VerbsApi api{};
  api.reg_mr = [](ibv_pd*, void*, size_t, int) -> ibv_mr* { return errno = ENOMEM, nullptr; };
  Registrations known(api, nullptr);
  const Memory first{.data = bytes[0], .bytes = 20'000};
  const Memory second{.data = bytes[1], .bytes = 20'000, .is_exposed = true};
  set_logger(nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(known.find(&first), nullptr);
  EXPECT_EQ(known.find(&second), nullptr);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "NET/Lyre : RDMA: 20000 bytes of NCCL's memory cannot be registered and are copied: " +
                memory_error_text(ENOMEM) + "\n");
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

std::optional<ibv_async_event> g_event;

int report_event(ibv_context*, ibv_async_event* out) {
  if (!g_event) return -1;
  *out = *g_event;
  g_event.reset();
  return 0;
}

VerbsApi api_with_two_ports() {
  VerbsApi api = adapter_sim::rdma_api();
  api.query_device = [](ibv_context* context, ibv_device_attr* out) {
    const int code = adapter_sim::rdma_api().query_device(context, out);
    out->phys_port_cnt = 2;
    return code;
  };
  api.get_async_event = report_event;
  return api;
}

/// A device with a queue pair on each of its two ports.
class DeviceWithTwoPorts : public RdmaHosts {
 protected:
  DeviceWithTwoPorts() {
    g_event.reset();
    caller_ = 0;
    devices_.look(events_.now_ns());
    first_ = make_on(1);
    second_ = make_on(2);
  }
  std::unique_ptr<QueuePair> make_on(uint8_t port) {
    std::string why = "there is no such port";
    for (const VerbsPlace& place : devices_.places(address(1))) {
      if (place.port->port == port) return QueuePair::make(place, {.first_psn = 1}, &why);
    }
    ADD_FAILURE() << why;
    return nullptr;
  }
  void report(ibv_event_type type, int port) {
    g_event.emplace();
    g_event->event_type = type;
    g_event->element.port_num = port;
    events_.run_until(events_.now_ns() + kTickNs);
    devices_.progress(events_.now_ns());
    EXPECT_FALSE(g_event) << "it was not read";
  }

  const VerbsApi api_ = api_with_two_ports();
  VerbsDevices devices_{api_, Settings{}};
  std::unique_ptr<QueuePair> first_;
  std::unique_ptr<QueuePair> second_;
};

TEST_F(DeviceWithTwoPorts, LosesThePortThatIsDownAndGoesOnWithTheOther) {
  report(IBV_EVENT_PORT_ERR, 2);
  EXPECT_EQ(second_->why(), "sim0 port 2: the port is down");
  EXPECT_EQ(first_->why(), "");
  ASSERT_EQ(devices_.places(address(1)).size(), 1u);
  EXPECT_EQ(devices_.places(address(1)).front().port->port, 1);
  EXPECT_NE(make_on(1), nullptr);
  report(IBV_EVENT_PORT_ACTIVE, 2);
  EXPECT_EQ(devices_.places(address(1)).size(), 2u);
}

TEST_F(DeviceWithTwoPorts, IsLostWithItsLastPort) {
  report(IBV_EVENT_PORT_ERR, 2);
  report(IBV_EVENT_PORT_ERR, 1);
  EXPECT_EQ(first_->why(), "sim0: its port is down");
  EXPECT_TRUE(devices_.places(address(1)).empty());
}

TEST_F(DeviceWithTwoPorts, LosesBothWhenItHasFailed) {
  report(IBV_EVENT_DEVICE_FATAL, 0);
  EXPECT_EQ(first_->why(), "sim0: the device is gone, or has failed");
  EXPECT_EQ(second_->why(), first_->why());
}

// A completion queue of 512 is the largest that it gives.
ibv_cq* create_small_queues_only(ibv_context* context, int entries, void* user,
                                 ibv_comp_channel* channel, int vector) {
  if (entries > 512) return errno = ENOMEM, nullptr;
  return adapter_sim::rdma_api().create_cq(context, entries, user, channel, vector);
}

TEST_F(OpenDevices, TakeASmallerCompletionQueueAndFewerQueuePairsWhereMemoryIsShort) {
  VerbsApi api = adapter_sim::rdma_api();
  api.create_cq = create_small_queues_only;
  VerbsDevices devices(api, Settings{});
  caller_ = 0;
  devices.look(events_.now_ns());
  ASSERT_EQ(devices.places(address(1)).size(), 1u) << devices.why_not();
  std::string why;
  std::vector<std::unique_ptr<QueuePair>> made;
  while (made.size() < 100) {
    auto next = QueuePair::make(devices.places(address(1)).front(), {.first_psn = 1}, &why);
    if (next == nullptr) break;
    made.push_back(std::move(next));
  }
  EXPECT_EQ(made.size(), 10u) << "48 entries each";
  EXPECT_EQ(why, "sim0 has no room for completions of one more queue pair");
}

TEST_F(OpenDevices, NameTheLimitOnLockedMemoryWhereNoCompletionQueueIsGiven) {
  VerbsApi api = adapter_sim::rdma_api();
  api.create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int) -> ibv_cq* {
    return errno = ENOMEM, nullptr;
  };
  VerbsDevices devices(api, Settings{});
  caller_ = 0;
  devices.look(events_.now_ns());
  EXPECT_EQ(devices.why_not(), "sim0 gives no completion queue: " + memory_error_text(ENOMEM));
}

}  // namespace
}  // namespace lyre::nccl_adapter
