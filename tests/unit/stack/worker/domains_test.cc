#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/channel_client.h"
#include "tests/support/worker_host.h"

// Clients of two domains on one worker: what each may do, and what is shown of it.
namespace lyre::test {
namespace {

using channel::EndStatus;
using channel::Event;

constexpr uint32_t kFirst = 0x0a090001;   // of port 0
constexpr uint32_t kSecond = 0x0a0a0001;  // of port 1

class DomainsTest : public testing::Test {
 protected:
  DomainsTest() : link_({}), second_link_({}) {
    rules_[1].index = 1;
    host_.emplace(link_, HostOptions{.second_link = &second_link_, .domains = 2});
  }
  /// Clients that attach with the rules as they are now.
  void attach() {
    for (uint32_t i = 0; i < 2; ++i) {
      clients_[i].emplace(host_->worker(), i, false, ChannelClient::kArenaBytes,
                          ChannelClient::kCopyBytes, uid_of_both_.value_or(i), &rules_[i]);
    }
    run();
  }
  void run() {
    for (int i = 0; i < 2000; ++i) {
      now_ = now_ + micros(100);
      host_->worker().poll_once(now_);
    }
  }
  ~DomainsTest() override {
    for (auto& client : clients_) {
      if (client) client->detach(true);
    }
    run();
  }

  static Endpoint at(uint32_t address, uint16_t port) { return {IpAddress::v4(address), port}; }
  EndStatus listen(uint32_t client, const Endpoint& local) {
    clients_[client]->listen_at(local, 1);
    run();
    const channel::Completion answer = clients_[client]->next();
    EXPECT_TRUE(answer.event == Event::kListening || answer.event == Event::kListenFailed);
    return answer.exact;
  }
  /// kOk once it is open; else why not.
  EndStatus connect(uint32_t client, const Endpoint& remote, const Endpoint& local = {}) {
    clients_[client]->connect(remote, 2, local);
    run();
    for (;;) {
      const channel::Completion entry = clients_[client]->next();
      if (entry.event == Event::kConnected) return EndStatus::kOk;
      if (entry.event == Event::kConnectFailed || entry.event == Event::kEnded) return entry.exact;
      if (entry.event == Event::kNone) return EndStatus::kTimedOut;
    }
  }

  io::sim::Link link_, second_link_;
  worker::DomainRules rules_[2];
  std::optional<uint32_t> uid_of_both_;
  std::optional<WorkerHost> host_;
  std::optional<ChannelClient> clients_[2];
  Nanos now_ = seconds(1);
};

TEST_F(DomainsTest, WithoutLimitsEverythingIsAllowed) {
  attach();
  EXPECT_EQ(listen(0, at(kFirst, 80)), EndStatus::kOk);
  EXPECT_EQ(connect(1, at(kFirst, 80)), EndStatus::kOk);
}

TEST_F(DomainsTest, ListeningAndLowPortsAreAllowedOrNot) {
  rules_[0].may_listen = false;
  rules_[1].may_use_low_ports = false;
  attach();
  EXPECT_EQ(listen(0, at(kFirst, 5000)), EndStatus::kForbidden);
  EXPECT_EQ(listen(1, at(kFirst, 1023)), EndStatus::kForbidden);
  EXPECT_EQ(listen(1, at(kFirst, 1024)), EndStatus::kOk);
  EXPECT_EQ(connect(1, at(kFirst, 1024), at(kFirst, 1023)), EndStatus::kForbidden);
  EXPECT_EQ(connect(1, at(kFirst, 1024), at(kFirst, 1025)), EndStatus::kOk);
}

TEST_F(DomainsTest, PortsOfOthersAreNotUsed) {
  rules_[0].ports = 1;
  rules_[1].ports = 2;
  attach();
  EXPECT_EQ(listen(0, at(kSecond, 5000)), EndStatus::kForbidden);
  EXPECT_EQ(listen(0, at(kFirst, 5000)), EndStatus::kOk);
  EXPECT_EQ(connect(0, at(kFirst, 5000), at(kSecond, 0)), EndStatus::kForbidden);
  EXPECT_EQ(connect(1, at(kFirst, 5000)), EndStatus::kForbidden);
  EXPECT_EQ(connect(1, at(kFirst, 5000), at(kSecond, 0)), EndStatus::kOk);
}

TEST_F(DomainsTest, AListenerAtAnyAddressHasNoneOfOthers) {
  rules_[0].ports = 1;
  attach();
  EXPECT_EQ(listen(0, {.port = 5000}), EndStatus::kOk);
  EXPECT_EQ(connect(1, at(kSecond, 5000)), EndStatus::kRefused);
  EXPECT_EQ(connect(1, at(kFirst, 5000)), EndStatus::kOk);
}

// Such a connection could take the place of one that a peer opens to the listener.
TEST_F(DomainsTest, NoConnectionIsOpenedFromAListenerOfAnotherUser) {
  rules_[0].ports = 1;
  attach();
  EXPECT_EQ(listen(0, {.port = 5000}), EndStatus::kOk);
  EXPECT_EQ(connect(1, at(kFirst, 6000), at(kFirst, 5000)), EndStatus::kAddressInUse);
  EXPECT_EQ(connect(1, at(kFirst, 6000), {.port = 5000}), EndStatus::kAddressInUse);
  EXPECT_EQ(connect(1, at(kFirst, 6000), at(kSecond, 5000)), EndStatus::kRefused)
      << "an address that the listener does not have";
  EXPECT_EQ(connect(0, at(kFirst, 6000), at(kFirst, 5000)), EndStatus::kRefused)
      << "of the same user";
}

TEST_F(DomainsTest, PeersAreThoseOfItsNetworks) {
  rules_[0].peers = {InterfaceAddress::of(IpAddress::v4(0x0a0a0000), 16)};
  attach();
  EXPECT_EQ(listen(0, {.port = 5000}), EndStatus::kOk);
  EXPECT_EQ(listen(1, at(kFirst, 6000)), EndStatus::kOk);
  EXPECT_EQ(connect(0, at(kFirst, 6000)), EndStatus::kForbidden);
  // Connections from the first address are refused, those from the second are accepted.
  EXPECT_EQ(connect(1, at(kFirst, 5000)), EndStatus::kRefused);
  EXPECT_EQ(connect(1, at(kFirst, 5000), at(kSecond, 0)), EndStatus::kOk);
}

TEST_F(DomainsTest, EachIsShownItsOwnSessionsOnly) {
  attach();
  EXPECT_EQ(listen(0, at(kFirst, 5000)), EndStatus::kOk);
  EXPECT_EQ(connect(1, at(kFirst, 5000)), EndStatus::kOk);
  clients_[0]->next();
  run();
  EXPECT_EQ(host_->shown_sessions(), 3u) << "listener and both ends";
  EXPECT_EQ(host_->shown_sessions(0), 2u) << "listener and its end";
  EXPECT_EQ(host_->shown_sessions(1), 1u);
  clients_[1]->detach(true);
  run();
  EXPECT_EQ(host_->shown_sessions(1), 0u);
  clients_[1].reset();
  EXPECT_GE(host_->shown_sessions(0), 1u);
}

TEST_F(DomainsTest, EachIsShownItsOwnClientsOnly) {
  attach();
  EXPECT_EQ(listen(0, at(kFirst, 5000)), EndStatus::kOk);
  channel::ClientView view;
  for (uint32_t domain = 0; domain < 2; ++domain) {
    EXPECT_TRUE(host_->domain_client_row(domain, domain).read(view));
    EXPECT_EQ(view.uid, domain);
    EXPECT_FALSE(host_->domain_client_row(domain, 1 - domain).read(view));
    EXPECT_TRUE(host_->client_row(domain).read(view));
  }
  clients_[1]->detach(true);
  run();
  clients_[1].reset();
  EXPECT_FALSE(host_->domain_client_row(1, 1).read(view));
}

TEST_F(DomainsTest, AClientHasSlotsByTheWeightOfItsDomain) {
  rules_[1].weight = 3;
  attach();
  io::sim::Memory& memory = host_->memory();
  std::vector<io::PacketBuf*> taken;
  const uint32_t all = memory.rx_slots_free();
  while (memory.rx_slots_free() > all / 8) taken.push_back(memory.alloc_rx());
  EXPECT_EQ(listen(0, at(kFirst, 5000)), EndStatus::kOk);  // without work nothing new is shown
  channel::ClientView first, second;
  ASSERT_TRUE(host_->client_row(0).read(first));
  ASSERT_TRUE(host_->client_row(1).read(second));
  EXPECT_GT(first.rx_slots_max, 0u);
  EXPECT_EQ(second.rx_slots_max, 3 * first.rx_slots_max);
  memory.release(taken);
}

// Root in every container has the same uid.
TEST_F(DomainsTest, ClientsOfOneUidInTwoDomainsHaveAccountsOfTheirOwn) {
  rules_[0].has_account = rules_[1].has_account = true;
  rules_[0].sessions_max = 4;
  rules_[0].listeners_max = 1;
  uid_of_both_ = 0;
  attach();
  EXPECT_EQ(listen(0, at(kFirst, 5000)), EndStatus::kOk);
  EXPECT_EQ(listen(0, at(kFirst, 5001)), EndStatus::kNoResources);
  EXPECT_EQ(listen(1, at(kFirst, 6000)), EndStatus::kOk);
  EXPECT_EQ(connect(0, at(kFirst, 5000)), EndStatus::kOk);
  EXPECT_EQ(connect(0, at(kFirst, 5000)), EndStatus::kOk);
  EXPECT_EQ(connect(0, at(kFirst, 5000)), EndStatus::kNoResources);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(connect(1, at(kFirst, 6000)), EndStatus::kOk);
}

}  // namespace
}  // namespace lyre::test
