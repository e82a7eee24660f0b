#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/daemon_link/region_cache.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/stream.h"
#include "nccl_adapter/transport/verbs/devices.h"
#include "tests/sim/adapter/network.h"
#include "tests/sim/adapter/system.h"

/// Two hosts with a daemon each, on the simulator's network and in its time, for tests of one class
/// of the adapter.
namespace lyre::nccl_adapter {

using adapter_sim::kMs;
using adapter_sim::kSecond;

/// What an instance would be to the class under test.
class TestEnvironment final : public Environment {
 public:
  /// `streams`: LYRE_STREAMS; 0: it begins with one.
  TestEnvironment(adapter_sim::Events* events, const std::string& host, uint32_t pid,
                  int64_t streams)
      : Environment(Settings{.streams = streams}, host, pid, 0, events->now_ns()),
        events_(events),
        stream_count_(static_cast<size_t>(std::max<int64_t>(streams, 1)),
                      streams > 0 ? static_cast<size_t>(streams) : kStreamsLearnedMax) {
    const std::string path = "sim/" + std::to_string(pid);
    const lyre_options options{.struct_bytes = sizeof options,
                               .socket_path = path.c_str(),
                               .label = nullptr,
                               .arena_bytes = 0};
    EXPECT_EQ(lyre_context_open(&options, &context_), 0);
    for (int i = 0; i < lyre_port_count(context_); ++i) {
      ports_.push_back({.struct_bytes = sizeof(lyre_port)});
      lyre_port_info(context_, i, &ports_.back());
    }
  }
  ~TestEnvironment() { lyre_context_close(context_); }

  lyre_context* context() const override { return context_; }
  const std::vector<lyre_port>& ports() const override { return ports_; }
  uint16_t listen_port() const override { return listen_port_; }
  void set_verbs(VerbsUse use) { settings_.verbs = use; }
  void set_verbs_mode(int64_t mode) { settings_.verbs_mode = mode; }
  void use_all_rails() { settings_.uses_all_rails = true; }
  void use(VerbsDevices* devices) { verbs_ = devices; }
  void set_listen_port(uint16_t port) { listen_port_ = port; }
  StreamCount& stream_count(size_t) override { return stream_count_; }
  Shortage& shortage() override { return shortage_; }
  bool note_daemon_error(int code) override {
    if (code != LYRE_E_DAEMON && code != LYRE_E_EXPELLED) return false;
    is_attached_ = false;
    return true;
  }
  Memory* take_memory(const void* data, size_t bytes) override {
    return regions_.take(context_, data, bytes);
  }
  void give_back_memory(Memory* memory) override {
    if (memory->users == 1 && verbs_ != nullptr) verbs_->forget(memory);
    regions_.give_back(memory);
  }

  /// Dispatches events to the comms, as Instance::progress() does.
  void look() {
    clock_.look(events_->now_ns());
    const uint64_t shortages = shortage_.declared();
    if (std::exchange(shortages_, shortages) != shortages) stream_count_.halve();
    lyre_poll(context_, 0);
    if (verbs_ != nullptr) verbs_->progress(now_ns());
    lyre_event event{.struct_bytes = sizeof event};
    while (lyre_next_event(context_, &event) == 1) {
      if (event.listener != nullptr) {
        on_listener();
      } else if (auto* owner = static_cast<SessionOwner*>(lyre_user(event.session))) {
        owner->on_ready();
      }
    }
  }
  std::function<void()> on_listener = [] {};

 private:
  adapter_sim::Events* events_;
  StreamCount stream_count_;
  Shortage shortage_;  // of this host's process
  uint64_t shortages_ = 0;
  lyre_context* context_ = nullptr;
  uint16_t listen_port_ = 0;
  std::vector<lyre_port> ports_;
  RegionCache regions_;
};

class TwoHosts : public ::testing::Test, private adapter_sim::System {
 protected:
  explicit TwoHosts(const adapter_sim::NetworkSettings& settings = {.hosts = 2, .rails = 2},
                    int64_t streams = 2)
      : network_(settings, events_, 1) {
    set_system(this);
    set_network(&network_);
    for (uint32_t i = 0; i < 2; ++i) {
      const std::string name = "host" + std::to_string(i);
      hosts_.push_back(std::make_unique<TestEnvironment>(&events_, name, i, streams));
    }
  }
  ~TwoHosts() override {
    hosts_.clear();
    adapter_sim::set_network(nullptr);
    adapter_sim::set_system(nullptr);
  }

  TestEnvironment& here() { return *hosts_[0]; }
  TestEnvironment& there() { return *hosts_[1]; }
  /// Looks on both hosts every millisecond until `condition` holds; false after `within_ns`.
  bool until(const std::function<bool()>& condition, int64_t within_ns = 60 * kSecond) {
    const int64_t end_ns = events_.now_ns() + within_ns;
    while (!condition()) {
      if (events_.now_ns() >= end_ns) return false;
      events_.run_until(events_.now_ns() + kMs);
      for (const auto& host : hosts_) host->look();
    }
    return true;
  }
  void pass(int64_t ns) {
    until([] { return false; }, ns);
  }
  /// What the progress threads would do ten times a second; they run only where a test calls this.
  void run_progress_threads() {
    for (const auto& [thread, work] : progress_threads_) (*work)();
  }
  /// NCCL makes no call meanwhile.
  void run_progress_threads_for(int64_t ns) {
    const int64_t end_ns = events_.now_ns() + ns;
    while (events_.now_ns() < end_ns) {
      events_.run_until(std::min(end_ns, events_.now_ns() + kProgressThreadNs / 2));
      run_progress_threads();
    }
  }

  adapter_sim::Events events_;
  adapter_sim::Network network_;
  std::function<void()> while_asleep;  ///< what others do while the code under test waits

 private:
  int64_t now_ns() override { return events_.now_ns(); }
  void sleep(int64_t ns) override {
    events_.run_until(events_.now_ns() + ns);
    const std::function<void()> others = std::exchange(while_asleep, nullptr);  // not in itself
    if (others == nullptr) return;
    others();
    while_asleep = others;
  }
  Nonce nonce() override {
    ++nonces_;
    return Nonce{static_cast<uint8_t>(nonces_), static_cast<uint8_t>(nonces_ >> 8)};
  }
  std::string host_name() override { return "host"; }
  uint32_t process_id() override { return 1; }
  void set_progress(const void* thread, const std::function<void()>* work) override {
    progress_threads_.erase(thread);
    if (work != nullptr) progress_threads_.emplace(thread, work);
  }

  uint16_t nonces_ = 0;
  std::map<const void*, const std::function<void()>*> progress_threads_;
  std::vector<std::unique_ptr<TestEnvironment>> hosts_;
};

}  // namespace lyre::nccl_adapter
