#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/transport/verbs/queue_pair.h"
#include "tests/sim/adapter/rdma.h"

/// Two hosts with an RDMA device each, on the simulator's network and in its time.
namespace lyre::nccl_adapter {

using adapter_sim::kMs;

class RdmaHosts : public ::testing::Test {
 protected:
  RdmaHosts() {
    network_.add_device(0);
    network_.add_device(1);
    network_.host_of_caller = [this] { return caller_; };
    network_.on_wrong = [this](const std::string& what) { wrong_.push_back(what); };
    adapter_sim::set_rdma(&network_);
    for (caller_ = 0; caller_ < 2; ++caller_) {
      hosts_.push_back(std::make_unique<VerbsDevices>(adapter_sim::rdma_api(), Settings{}));
      hosts_.back()->look(events_.now_ns());
    }
  }
  ~RdmaHosts() override {
    hosts_.clear();
    EXPECT_EQ(network_.open_contexts(), 0u);
    adapter_sim::set_rdma(nullptr);
  }

  static Address address(size_t host) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 200, 0, static_cast<uint8_t>(host + 1)};
  }
  std::unique_ptr<QueuePair> make(size_t host) {
    std::string why;
    const std::vector<VerbsPlace> places = hosts_[host]->places(address(1 - host));
    if (places.empty()) return nullptr;
    const QueuePair::Use use{.first_psn = static_cast<uint32_t>(host + 1),
                             .modes = kModeSend | kModeWrite,
                             .is_receiver = host == 1};
    auto made = QueuePair::make(places.front(), use, &why);
    EXPECT_NE(made, nullptr) << why;
    return made;
  }
  void look_for_devices(size_t host) {
    caller_ = host;
    events_.run_until(events_.now_ns() + kVerbsLookNs);
    hosts_[host]->look(events_.now_ns());
  }
  void pass(int64_t ns) {
    const int64_t end_ns = events_.now_ns() + ns;
    while (events_.now_ns() < end_ns) {
      events_.run_until(events_.now_ns() + kMs / 10);
      for (const auto& host : hosts_) host->progress(events_.now_ns());
    }
  }

  adapter_sim::Events events_;
  adapter_sim::RdmaNetwork network_{adapter_sim::RdmaSettings{}, events_, 1};
  std::vector<std::unique_ptr<VerbsDevices>> hosts_;
  std::vector<std::string> wrong_;  ///< what the network objected to
  size_t caller_ = 0;
};

/// Two queue pairs that are connected: what `near_` sends, `far_` gets.
class ConnectedQueuePairs : public RdmaHosts {
 protected:
  ConnectedQueuePairs() { connect_anew(); }
  void connect_anew() {
    near_ = make(0);
    far_ = make(1);
    std::string why;
    EXPECT_TRUE(far_->connect(near_->terms(), &why)) << why;
    EXPECT_TRUE(near_->connect(far_->terms(), &why)) << why;
  }
  ~ConnectedQueuePairs() override {
    near_.reset();
    far_.reset();
  }

  void prove() {
    near_->probe();
    pass(kMs);
    take(*far_);
  }
  /// Everything that has come.
  static std::vector<uint8_t> take(QueuePair& queue_pair) {
    std::vector<uint8_t> all;
    std::span<const uint8_t> bytes;
    while (queue_pair.peek(&bytes) == Io::kOk) {
      all.insert(all.end(), bytes.begin(), bytes.end());
      queue_pair.consume(bytes.size());
    }
    queue_pair.release();
    return all;
  }

  std::unique_ptr<QueuePair> near_;
  std::unique_ptr<QueuePair> far_;
};

}  // namespace lyre::nccl_adapter
