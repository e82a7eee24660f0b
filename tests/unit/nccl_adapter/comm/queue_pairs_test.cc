#include "nccl_adapter/comm/queue_pairs.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/sim/adapter/lyre_api.h"
#include "tests/sim/adapter/rdma.h"
#include "tests/unit/nccl_adapter/support/comms.h"

namespace lyre::nccl_adapter {
namespace {

size_t g_caller = 0;

// libibverbs as a process on that host calls it.
template <size_t kHost>
VerbsApi api_on() {
  VerbsApi api = adapter_sim::rdma_api();
  api.get_device_list = [](int* count) {
    g_caller = kHost;
    return adapter_sim::rdma_api().get_device_list(count);
  };
  return api;
}

/// What a host has of each.
struct Equipment {
  size_t rails = 2;
  size_t devices = 1;
  bool is_one_network = false;
  int64_t timeout_there = 0;  ///< of the receiver's devices; 0: that of the settings
};

Settings settings_there(Settings settings, const Equipment& equipment) {
  if (equipment.timeout_there > 0) settings.verbs_timeout = equipment.timeout_there;
  return settings;
}

/// Comms with RDMA devices on each host, one if nothing else is said.
class CommsWithRdma : public Comms {
 protected:
  explicit CommsWithRdma(const Settings& settings = {}, const Equipment& equipment = {})
      : Comms({.rails = equipment.rails, .is_one_network = equipment.is_one_network}),
        rdma_({.is_one_network = equipment.is_one_network}, events_, 1),
        here_devices_(here_api_, settings),
        there_devices_(there_api_, settings_there(settings, equipment)) {
    for (size_t i = 0; i < equipment.devices; ++i) rdma_.add_device(0);
    for (size_t i = 0; i < equipment.devices; ++i) rdma_.add_device(1);
    rdma_.host_of_caller = [] { return g_caller; };
    rdma_.on_wrong = [this](const std::string& what) { wrong_.push_back(what); };
    adapter_sim::set_rdma(&rdma_);
    here().use(&here_devices_);
    there().use(&there_devices_);
    here().set_verbs_mode(settings.verbs_mode);
    there().set_verbs_mode(settings.verbs_mode);
    if (settings.uses_all_rails) use_all_rails();
    connect();
    EXPECT_TRUE(has_queue_pair());
  }
  ~CommsWithRdma() override {
    sender_.reset();
    owned_.clear();
  }
  void use_all_rails() {
    here().use_all_rails();
    Handle to = handle();
    to.others = further_addresses(there().ports(), 0);
    to.places = places_of(there().ports(), 0, to.others);
    sender_ = std::make_unique<SendComm>(&here(), Nonce{1}, 0, to);
  }
  bool has_queue_pair() {
    return works_until([&] {
      const bool is_up = sender_->facts().view.queue_pairs_up > 0;
      return is_up && receiver_->facts().view.queue_pairs_up > 0;
    });
  }
  void carry(std::vector<uint8_t>& out) {
    std::vector<uint8_t> in(out.size());
    Request* receive = post(*receiver_, in);
    Request* send = post(*sender_, out);
    EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess);
    EXPECT_EQ(finish(*sender_, send), Result::kSuccess);
    EXPECT_EQ(in, out);
  }

  std::vector<std::string> wrong_;  ///< what the network objected to
  adapter_sim::RdmaNetwork rdma_;
  VerbsApi here_api_ = api_on<0>();
  VerbsApi there_api_ = api_on<1>();
  VerbsDevices here_devices_;
  VerbsDevices there_devices_;
};

class CommsWithThreeQueuePairs : public CommsWithRdma {
 protected:
  CommsWithThreeQueuePairs() : CommsWithRdma({.verbs_queue_pairs = 3}) {}
};

TEST_F(CommsWithThreeQueuePairs, HaveThemOnOnePort) {
  EXPECT_TRUE(works_until([&] { return sender_->facts().view.queue_pairs_up == 3; }));
  std::vector<uint8_t> out = numbered(4'000'000);
  carry(out);
  EXPECT_EQ(rdma_.connected(), 6u) << "three on each side";
}

/// Its devices try for 4.3 s before they report a failure.
class CommsWithALongTimeout : public CommsWithRdma {
 protected:
  CommsWithALongTimeout() : CommsWithRdma({.verbs_timeout = 17}) {}
};

TEST_F(CommsWithALongTimeout, LeaveTheirDevicesTheTimeForAllTries) {
  rdma_.cut(0, 1, events_.now_ns() + 3 * kSecond);
  std::vector<uint8_t> out = numbered(300'000);
  carry(out);
  EXPECT_EQ(sender_->facts().view.queue_pairs_lost, 0u);
  EXPECT_EQ(receiver_->facts().view.queue_pairs_lost, 0u);
}

TEST_F(CommsWithALongTimeout, GoOnOverTcpWhenADeviceReportsNothingForLonger) {
  rdma_.remove_devices(0, false);
  std::vector<uint8_t> out = numbered(300'000);
  carry(out);
  EXPECT_EQ(sender_->facts().view.queue_pairs_lost, 1u);
}

int (*g_post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

int fail_once(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  qp->context->ops.post_send = g_post_send;
  *bad = request;
  return ENOMEM;
}

// The queue pair is accepted in the middle of a stream's bytes. A failure there must not have them
// read once more.
TEST_F(CommsWithRdma, AQueuePairWhoseFirstSendFailsCostsNothingElse) {
  here_api_.modify_qp = [](ibv_qp* qp, ibv_qp_attr* attr, int mask) {
    const bool is_first = attr->qp_state == IBV_QPS_RTS && g_post_send == nullptr;
    if (is_first) g_post_send = std::exchange(qp->context->ops.post_send, fail_once);
    return adapter_sim::rdma_api().modify_qp(qp, attr, mask);
  };
  rdma_.break_queue_pair();
  EXPECT_TRUE(works_until([&] { return g_post_send != nullptr; }));
  EXPECT_TRUE(works_until([&] { return sender_->facts().view.queue_pairs_lost == 2; }));
  EXPECT_FALSE(sender_->has_failed()) << sender_->failure().why;
  EXPECT_FALSE(receiver_->has_failed()) << receiver_->failure().why;
  ASSERT_TRUE(has_queue_pair());
  std::vector<uint8_t> out = numbered(300'000);
  carry(out);
}

TEST_F(CommsWithRdma, ShowWhatIsCopiedForQueuePairs) {
  adapter_sim::reset_copied();
  std::vector<uint8_t> out = numbered(300'000);
  carry(out);
  EXPECT_EQ(sender_->facts().view.copied_bytes, out.size());
  EXPECT_EQ(receiver_->facts().view.copied_bytes, out.size());
  EXPECT_EQ(adapter_sim::copied_tx_bytes(), 0u) << "it went over a stream";
}

TEST_F(CommsWithRdma, CopyNothingOfRegisteredMemoryBeforeItIsSent) {
  std::vector<uint8_t> out = numbered(300'000);
  std::vector<uint8_t> in(out.size());
  const Registration* registration = sender_->add_registration(out.data(), out.size());
  Request* receive = post(*receiver_, in);
  Request* send = nullptr;
  EXPECT_EQ(sender_->post(out.data(), out.size(), registration, Operation{}, &send),
            Result::kSuccess);
  EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess);
  EXPECT_EQ(finish(*sender_, send), Result::kSuccess);
  EXPECT_EQ(sender_->facts().view.copied_bytes, 0u);
  EXPECT_EQ(sender_->remove_registration(registration), Result::kSuccess);
}

class CommsInModeTwo : public CommsWithRdma {
 protected:
  CommsInModeTwo() : CommsWithRdma({.verbs_mode = 2}) {}
  /// What follows the last comma of its path.
  static std::string mode_of(const Comm& comm) {
    const std::string path = comm.facts().streams.front().path;
    return path.substr(path.rfind(", ") + 2);
  }
};

// It said "mode 2" also where all data was copied.
TEST_F(CommsInModeTwo, ShowWhetherDataIsWritten) {
  std::vector<uint8_t> out = numbered(4'000'000);
  carry(out);
  EXPECT_EQ(mode_of(*sender_), "mode 2 unused");
  EXPECT_EQ(mode_of(*receiver_), "mode 2 unused");
  std::vector<uint8_t> in(out.size());
  const Registration* from = sender_->add_registration(out.data(), out.size());
  const Registration* to = receiver_->add_registration(in.data(), in.size());
  Request* receive = nullptr;
  Request* send = nullptr;
  EXPECT_EQ(receiver_->post(in.data(), in.size(), to, Operation{}, &receive), Result::kSuccess);
  EXPECT_EQ(sender_->post(out.data(), out.size(), from, Operation{}, &send), Result::kSuccess);
  EXPECT_EQ(finish(*receiver_, receive), Result::kSuccess);
  EXPECT_EQ(finish(*sender_, send), Result::kSuccess);
  EXPECT_EQ(in, out);
  EXPECT_EQ(mode_of(*sender_), "mode 2");
  EXPECT_EQ(mode_of(*receiver_), "mode 2");
  EXPECT_EQ(sender_->remove_registration(from), Result::kSuccess);
  EXPECT_EQ(receiver_->remove_registration(to), Result::kSuccess);
}

TEST_F(CommsWithRdma, ShowTheirQueuePairsAndHowManyWereLost) {
  std::vector<uint8_t> out = numbered(300'000);
  carry(out);
  const CommFacts before = sender_->facts();
  EXPECT_EQ(before.view.queue_pairs_up, 1u);
  EXPECT_EQ(before.view.queue_pairs_lost, 0u);
  EXPECT_EQ(before.streams.front().rail, "over RDMA");
  rdma_.break_queue_pair();
  ASSERT_TRUE(works_until([&] { return sender_->facts().view.queue_pairs_lost > 0; }));
  EXPECT_EQ(sender_->facts().view.copied_bytes, out.size()) << "what is gone counts, too";
  ASSERT_TRUE(has_queue_pair());
  EXPECT_EQ(sender_->facts().view.queue_pairs_lost, 1u);
}

/// A message is placed, and the sender was told so; but its device waits for the acknowledgement.
class CommsWithALateAcknowledgement : public CommsWithRdma {
 protected:
  void send_and_deregister() {
    const Registration* registration = sender_->add_registration(data_.data(), data_.size());
    rdma_.lose_acknowledgements();
    Request* sent = nullptr;
    ASSERT_EQ(sender_->post(data_.data(), data_.size(), registration, Operation{}, &sent),
              Result::kSuccess);
    Request* received = post(*receiver_, got_);
    EXPECT_EQ(finish(*receiver_, received), Result::kSuccess);
    EXPECT_EQ(finish(*sender_, sent), Result::kSuccess);
    EXPECT_GT(rdma_.delivered_bytes(), data_.size());
    EXPECT_TRUE(sender_->should_wait_to_deregister(registration));
    EXPECT_EQ(sender_->remove_registration(registration), Result::kSuccess);
    EXPECT_EQ(sender_->facts().view.queue_pairs_lost, 1u);
  }

  std::vector<uint8_t> data_ = std::vector<uint8_t>(kStripeBytesMin);
  std::vector<uint8_t> got_ = std::vector<uint8_t>(kStripeBytesMin);
};

TEST_F(CommsWithALateAcknowledgement, MemoryIsReadNoMoreAfterItsDeregistration) {
  send_and_deregister();
  EXPECT_TRUE(wrong_.empty()) << wrong_.front();
}

// The last user is another comm, which does not know this one's queue pairs.
TEST_F(CommsWithALateAcknowledgement, MemoryOfSeveralUsersIsReadNoMoreAfterTheLastOne) {
  Memory* memory = here().take_memory(data_.data(), data_.size());
  send_and_deregister();
  here().give_back_memory(memory);
  EXPECT_TRUE(wrong_.empty()) << wrong_.front();
}

/// The receiver's process does nothing from when it has posted a receive until the sender is out of
/// credit, and everything that this one sent is acknowledged.
class CommsWithoutCredit : public CommsWithRdma {
 protected:
  CommsWithoutCredit() {
    receive_ = post(*receiver_, in_);
    works_until([] { return false; }, 100 * kMs);
    post(*sender_, out_);
    for (int i = 0; i < 100; ++i) {
      events_.run_until(events_.now_ns() + kMs);
      here().look();
    }
    EXPECT_EQ(sender_->facts().streams.front().unacked_bytes, 0u);
  }

  std::vector<uint8_t> out_ = numbered(4'000'000);
  std::vector<uint8_t> in_ = std::vector<uint8_t>(out_.size());
  Request* receive_ = nullptr;
};

// The sender has nothing under way, so its device reports nothing.
TEST_F(CommsWithoutCredit, GoOnWhereTheFirstDeclineIsLost) {
  rdma_.remove_devices(1, true);
  there_devices_.progress(events_.now_ns());
  ASSERT_EQ(receiver_->facts().view.queue_pairs_lost, 1u);
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  ASSERT_EQ(sender_->facts().view.queue_pairs_up, 1u);
  EXPECT_EQ(finish(*receiver_, receive_), Result::kSuccess);
  EXPECT_EQ(in_, out_);
}

int g_connects = 0;

int fail_to_connect(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (attr->qp_state != IBV_QPS_RTR) return adapter_sim::rdma_api().modify_qp(qp, attr, mask);
  ++g_connects;
  return ETIMEDOUT;
}

// A call that fails so has blocked all comms of the process for a second.
TEST_F(CommsWithRdma, TryAPathThatFailsSeldomHoweverManyTheyAre) {
  there_api_.modify_qp = fail_to_connect;
  g_connects = 0;
  std::vector<std::unique_ptr<SendComm>> others;
  for (uint8_t id = 10; id < 17; ++id) {
    others.push_back(std::make_unique<SendComm>(&here(), Nonce{id}, 0, handle()));
  }
  rdma_.break_queue_pair();
  const auto tick_others = [&] {
    for (const auto& other : others) other->tick(events_.now_ns());
    return false;
  };
  works_until(tick_others, 10 * kSecond);
  EXPECT_EQ(owned_.size(), 8u);
  EXPECT_GE(g_connects, 1);
  EXPECT_LE(g_connects, 7);
}

TEST_F(CommsWithRdma, GrantOverAStreamWhileTheQueuePairIsUnproven) {
  std::vector<uint8_t> out = numbered(1 << 20);
  carry(out);
  works_until([] { return false; }, 10 * kMs);
  rdma_.cut(0, 1, INT64_MAX);
  rdma_.break_queue_pair();
  const auto has_second = [&] {
    const CommFacts facts = receiver_->facts();
    return facts.streams.front().is_up && facts.view.redials == 1;
  };
  ASSERT_TRUE(works_until(has_second));
  carry(out);
  EXPECT_TRUE(has_second()) << "the grant waited until the queue pair was given up";
}

using Spread = std::vector<size_t>;

/// Four rails and four devices a host, all of them in one network.
class CommsInAFlatNetwork : public CommsWithRdma {
 protected:
  explicit CommsInAFlatNetwork(const Settings& settings = {}, int64_t timeout_there = 0)
      : CommsWithRdma(
            settings,
            {.rails = 4, .devices = 4, .is_one_network = true, .timeout_there = timeout_there}) {}

  adapter_sim::RdmaDevice& device(size_t host, size_t index) const {
    return *rdma_.devices()[host * 4 + index];
  }
  /// How many queue pairs each device of the host has.
  std::vector<size_t> spread(size_t host) const {
    std::vector<size_t> counts;
    for (size_t i = 0; i < 4; ++i) counts.push_back(rdma_.connected(&device(host, i)));
    return counts;
  }
  /// Another comm, between ports of that number.
  void add_sender(size_t port) {
    Handle to = handle();
    to.address = address_of(there().ports()[port]);
    const auto id = static_cast<uint8_t>(10 + others_.size());
    others_.push_back(std::make_unique<SendComm>(&here(), Nonce{id}, port, to));
  }
  bool others_have_queue_pairs() {
    return works_until([&] {
      size_t count = 0;
      tick_others();
      for (const auto& other : others_) count += other->facts().view.queue_pairs_up;
      return count == others_.size();
    });
  }
  void tick_others() {
    for (const auto& other : others_) other->tick(events_.now_ns());
  }
  bool is_spread(const Spread& wanted) const { return spread(0) == wanted && spread(1) == wanted; }
  /// The receiver's process does nothing meanwhile.
  void hold_receiver(int64_t ns) {
    const int64_t end_ns = events_.now_ns() + ns;
    while (events_.now_ns() < end_ns) {
      events_.run_until(events_.now_ns() + kMs);
      here().look();
      tick_others();
    }
  }

  std::vector<std::unique_ptr<SendComm>> others_;
};

TEST_F(CommsInAFlatNetwork, HaveTheirQueuePairsOnTheDevicesOfTheirRails) {
  for (size_t port = 1; port < 4; ++port) add_sender(port);
  ASSERT_TRUE(others_have_queue_pairs());
  EXPECT_EQ(spread(0), std::vector<size_t>(4, 1));
  EXPECT_EQ(spread(1), std::vector<size_t>(4, 1));
}

TEST_F(CommsInAFlatNetwork, TakeAnotherPairOfDevicesWhereOneDoesNotWork) {
  rdma_.cut(device(0, 1), device(1, 1));
  add_sender(1);
  ASSERT_TRUE(others_have_queue_pairs());
  EXPECT_EQ(rdma_.connected(), 4u);
  EXPECT_TRUE(spread(0)[1] == 0 || spread(1)[1] == 0);
}

/// Their devices report a path that does not work after 17 s.
class CommsInASlowFlatNetwork : public CommsInAFlatNetwork {
 protected:
  CommsInASlowFlatNetwork() : CommsInAFlatNetwork({.verbs_timeout = 19}) {}
};

TEST_F(CommsInASlowFlatNetwork, TakeAnotherPairOfDevicesWhereOneDoesNotWork) {
  rdma_.cut(device(0, 1), device(1, 1));
  add_sender(1);
  EXPECT_TRUE(others_have_queue_pairs());
}

TEST_F(CommsInAFlatNetwork, GoRoundADeviceThatReachesNobody) {
  for (size_t i = 0; i < 4; ++i) rdma_.cut(device(0, i), device(1, 2));
  add_sender(2);
  ASSERT_TRUE(others_have_queue_pairs());
  EXPECT_EQ(spread(1)[2], 0u);
}

TEST_F(CommsInAFlatNetwork, StayOnTheirRailWhereAnAnswerIsLate) {
  add_sender(1);
  ASSERT_TRUE(works_until([&] { return tick_others(), others_.front()->is_connected(); }));
  hold_receiver(3 * kSecond);
  ASSERT_TRUE(others_have_queue_pairs());
  EXPECT_TRUE(is_spread({1, 1, 0, 0}));
}

TEST_F(CommsInAFlatNetwork, TakeTheSameDeviceWhenItIsBackAtOnce) {
  works_until([] { return false; }, 2 * kVerbsLookNs);
  device(0, 0).is_there = false;
  here_devices_.look(events_.now_ns());
  device(0, 0).is_there = true;
  ASSERT_TRUE(works_until([&] { return sender_->facts().view.queue_pairs_lost == 1; }));
  ASSERT_TRUE(has_queue_pair());
  EXPECT_EQ(spread(0), (Spread{1, 0, 0, 0}));
}

/// The sender's devices report a path that does not work after 17 s.
class CommsOfASlowSender : public CommsInAFlatNetwork {
 protected:
  CommsOfASlowSender() : CommsInAFlatNetwork({.verbs_timeout = 19}, kVerbsTimeout) {}
};

// To the receiver its queue pair seems to last: it hears nothing, and sends nothing.
TEST_F(CommsOfASlowSender, GoRoundADeviceThatReachesNobody) {
  for (size_t i = 0; i < 4; ++i) rdma_.cut(device(0, i), device(1, 2));
  add_sender(2);
  ASSERT_TRUE(others_have_queue_pairs());
  EXPECT_EQ(spread(1)[2], 0u);
}

/// The first stream is between the first rails, the second one between the second ones.
class CommsOverAllRails : public CommsWithRdma {
 protected:
  CommsOverAllRails()
      : CommsWithRdma({.uses_all_rails = true},
                      {.rails = 2, .devices = 2, .is_one_network = true}) {}
};

TEST_F(CommsOverAllRails, HaveTheQueuePairOnTheFirstRailAlsoWhereAnotherStreamBringsTheOffer) {
  ASSERT_TRUE(works_until([&] { return receiver_->facts().streams.size() == 3; }));
  works_until([] { return false; }, kQueuePairProvenNs + 2 * kSecond);
  network_.wires().set_rail({.host = 0, .rail = 0}, false);
  for (adapter_sim::Connection* connection : network_.established()) {
    if (connection->ends[1].rail == 0) network_.tcp().reset(*connection);
  }
  rdma_.break_queue_pair();
  ASSERT_TRUE(works_until([&] { return sender_->facts().view.queue_pairs_lost == 1; }));
  ASSERT_TRUE(has_queue_pair());
  EXPECT_EQ(rdma_.connected(rdma_.devices()[2].get()), 1u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
