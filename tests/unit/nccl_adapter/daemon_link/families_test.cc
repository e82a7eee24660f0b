#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/transport/address.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

// Hosts whose ports have addresses of different families.
namespace lyre::nccl_adapter {
namespace {

using adapter_sim::Families;
using nccl_abi::Result;

/// An instance on each host. The first one sends, over both of its ports.
class InstancesOfFamilies : public TwoHosts {
 protected:
  InstancesOfFamilies(Families sender, Families receiver)
      : TwoHosts({.hosts = 2, .rails = 2, .families = {sender, receiver}}) {
    const Settings settings{.socket_path = "sim/0", .streams = 2, .uses_all_rails = true};
    sends_ = Instance::open(settings, 0, &failure_);
    receives_ = Instance::open(Settings{.socket_path = "sim/1"}, 0, &failure_);
    EXPECT_EQ(receives_->listen(0, handle_, &listening_), Result::kSuccess);
  }
  ~InstancesOfFamilies() override {
    receives_->close_listen(listening_);
    sends_.reset();
    receives_.reset();
  }

  bool connect() {
    Comm* receiver = nullptr;
    until([&] {
      if (sender_ == nullptr && connect_once() != Result::kSuccess) return true;
      if (receiver == nullptr) receives_->accept(listening_, &receiver);
      return sender_ != nullptr && receiver != nullptr;
    });
    return sender_ != nullptr && receiver != nullptr;
  }
  /// A stream from each port of the one host to the same port of the other, all of one family.
  void expect_a_stream_on_each_rail(bool is_ipv4_expected) {
    ASSERT_TRUE(until([&] {
      sends_->progress();
      receives_->progress();
      return network_.established().size() == 2;
    }));
    std::vector<size_t> rails;
    for (const adapter_sim::Connection* connection : network_.established()) {
      EXPECT_EQ(connection->ends[0].rail, connection->ends[1].rail);
      rails.push_back(connection->ends[0].rail);
      for (const adapter_sim::End& end : connection->ends) {
        EXPECT_EQ(is_ipv4(std::to_array(end.local.address)), is_ipv4_expected);
      }
    }
    std::sort(rails.begin(), rails.end());
    EXPECT_EQ(rails, (std::vector<size_t>{0, 1}));
    EXPECT_EQ(network_.connections().size(), 2u) << "each dial has got through";
  }
  Result connect_once() { return sends_->connect(0, handle_, &sender_); }

  int failure_ = 0;
  std::unique_ptr<Instance> sends_;
  std::unique_ptr<Instance> receives_;
  ListenComm* listening_ = nullptr;
  Comm* sender_ = nullptr;

 private:
  std::array<uint8_t, nccl_abi::kHandleBytesMax> handle_{};
};

class FromIpv6ToBoth : public InstancesOfFamilies {
 protected:
  FromIpv6ToBoth() : InstancesOfFamilies(Families::kIpv6, Families::kBoth) {}
};

class FromBothToIpv6 : public InstancesOfFamilies {
 protected:
  FromBothToIpv6() : InstancesOfFamilies(Families::kBoth, Families::kIpv6) {}
};

class FromBothToBoth : public InstancesOfFamilies {
 protected:
  FromBothToBoth() : InstancesOfFamilies(Families::kBoth, Families::kBoth) {}
};

class FromIpv6ToIpv4 : public InstancesOfFamilies {
 protected:
  FromIpv6ToIpv4() : InstancesOfFamilies(Families::kIpv6, Families::kIpv4) {}
};

TEST_F(FromIpv6ToBoth, UseIpv6OnEachRail) {
  ASSERT_TRUE(connect());
  expect_a_stream_on_each_rail(false);
  EXPECT_TRUE(sender_->peer().address.starts_with("[fd00::2]:")) << sender_->peer().address;
}

TEST_F(FromBothToIpv6, UseIpv6OnEachRail) {
  ASSERT_TRUE(connect());
  expect_a_stream_on_each_rail(false);
}

TEST_F(FromBothToBoth, UseTheFirstFamilyOnly) {
  ASSERT_TRUE(connect());
  expect_a_stream_on_each_rail(true);
}

TEST_F(FromIpv6ToIpv4, SayAtOnceThatTheFamiliesDiffer) {
  set_logger(nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(connect_once(), Result::kInvalidUsage);
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("the address families differ: 10.0.0.2 there, [fd00::1] here (rail0)"),
            std::string::npos)
      << lines;
  EXPECT_TRUE(network_.connections().empty());
}

}  // namespace
}  // namespace lyre::nccl_adapter
