#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/comm/close_patience.h"
#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/comm/host_patience.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/daemon_link/system.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/plugin/plugin.h"
#include "tests/sim/adapter/rdma.h"
#include "tests/unit/nccl_adapter/support/context_call.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

/// Comms of two processes, with an RDMA device each. A message is placed, and the sender was told
/// so; but its device waits for the acknowledgement, for about half a second. Times are virtual.
class DeregistrationOverRdma : public TwoHosts {
 protected:
  struct Pair {
    void* listening = nullptr;
    void* sender = nullptr;
    void* receiver = nullptr;
    std::vector<uint8_t> out = std::vector<uint8_t>(kStripeBytesMin);
    std::vector<uint8_t> in = std::vector<uint8_t>(kStripeBytesMin);
    void* memory = nullptr;  ///< `out`, registered
    void* send = nullptr;
    void* receive = nullptr;
  };

  void SetUp() override {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    ::setenv("LYRE_VERBS", "auto", 1);
    for (size_t host = 0; host < 2; ++host) rdma_.add_device(host);
    rdma_.host_of_caller = [this] { return caller_; };
    adapter_sim::set_rdma(&rdma_);
    for (caller_ = 0; caller_ < 2; ++caller_) {
      ::setenv("LYRE_SOCKET", ("sim/" + std::to_string(caller_)).c_str(), 1);
      ASSERT_EQ(init_context(&contexts_[caller_], 0, nullptr, nullptr), Result::kSuccess);
    }
  }
  void TearDown() override {
    for (const Pair& pair : pairs_) {
      at(0, [&] { return dereg_mr(pair.sender, pair.memory); });
      at(0, [&] { return close_comm(pair.sender); });
      at(1, [&] { return close_comm(pair.receiver); });
      at(1, [&] { return close_listen(pair.listening); });
    }
    for (size_t host = 0; host < 2; ++host) at(host, [&] { return finalize(contexts_[host]); });
    adapter_sim::set_rdma(nullptr);
    for (const char* name : {"LYRE_SOCKET", "LYRE_TELEMETRY_DIR", "LYRE_VERBS"}) ::unsetenv(name);
  }

  /// A call by the process on that host.
  template <typename Call>
  Result at(size_t host, Call call) {
    const size_t before = std::exchange(caller_, host);
    const Result result = call();
    caller_ = before;
    return result;
  }
  InstanceCall instance(size_t host) { return call_with(contexts_[host]); }
  bool works_until(const std::function<bool()>& condition) {
    return until([&] {
      for (size_t host = 0; host < 2; ++host) {
        const InstanceCall own = instance(host);
        const std::lock_guard lock(own->mutex());
        at(host, [&] { return own->progress(); });
      }
      return condition();
    });
  }
  /// With a queue pair, and with registered memory.
  void add_pair() {
    Pair& pair = pairs_.emplace_back();
    std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
    ASSERT_EQ(at(1, [&] { return listen(contexts_[1], 0, handle.data(), &pair.listening); }),
              Result::kSuccess);
    ASSERT_TRUE(works_until([&] {
      if (pair.sender == nullptr) {
        at(0, [&] { return connect(contexts_[0], 0, handle.data(), &pair.sender); });
      }
      if (pair.receiver == nullptr) {
        at(1, [&] { return accept(pair.listening, &pair.receiver, nullptr); });
      }
      return pair.sender != nullptr && pair.receiver != nullptr;
    }));
    ASSERT_TRUE(
        works_until([&] { return has_queue_pair(pair.sender) && has_queue_pair(pair.receiver); }));
    ASSERT_EQ(at(0,
                 [&] {
                   return reg_mr(pair.sender, pair.out.data(), pair.out.size(), nccl_abi::kPtrHost,
                                 &pair.memory);
                 }),
              Result::kSuccess);
  }
  void post(Pair& pair) {
    ASSERT_EQ(at(0,
                 [&] {
                   return isend(pair.sender, pair.out.data(), pair.out.size(), pair.memory, nullptr,
                                &pair.send);
                 }),
              Result::kSuccess);
    ASSERT_EQ(at(1,
                 [&] {
                   return irecv(pair.receiver, 1, pair.in.data(), pair.in.size(), nullptr, nullptr,
                                &pair.receive);
                 }),
              Result::kSuccess);
  }
  /// Both of its requests are done.
  bool is_done(Pair& pair) {
    forget_if_done(0, pair.send);
    forget_if_done(1, pair.receive);
    return pair.send == nullptr && pair.receive == nullptr;
  }
  void forget_if_done(size_t host, void*& request) {
    if (request == nullptr) return;
    int done = 0;
    EXPECT_EQ(at(host, [&] { return test(request, &done, nullptr); }), Result::kSuccess);
    if (done != 0) request = nullptr;
  }
  int64_t deregister_ns(Pair& pair) {
    const int64_t from_ns = events_.now_ns();
    void* memory = std::exchange(pair.memory, nullptr);
    EXPECT_EQ(at(0, [&] { return dereg_mr(pair.sender, memory); }), Result::kSuccess);
    return events_.now_ns() - from_ns;
  }

  std::deque<Pair> pairs_;
  adapter_sim::RdmaNetwork rdma_{adapter_sim::RdmaSettings{}, events_, 1};

 private:
  static bool has_queue_pair(void* comm) {
    return static_cast<Comm*>(comm)->facts().view.queue_pairs_up > 0;
  }

  std::array<void*, 2> contexts_{};
  size_t caller_ = 0;
};

TEST_F(DeregistrationOverRdma, WaitsInFullOnceForEachHost) {
  for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(add_pair());
  rdma_.lose_acknowledgements();
  for (Pair& pair : pairs_) ASSERT_NO_FATAL_FAILURE(post(pair));
  for (Pair& pair : pairs_) ASSERT_TRUE(works_until([&] { return is_done(pair); }));
  EXPECT_GE(deregister_ns(pairs_[0]), kDeregisterWaitNs);
  const int64_t second_ns = deregister_ns(pairs_[1]);
  EXPECT_GE(second_ns, ClosePatience::kFollowerGoodbyeNs);
  EXPECT_LT(second_ns, kDeregisterWaitNs);
}

TEST_F(DeregistrationOverRdma, LetsOtherCommsGoOnMeanwhile) {
  for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(add_pair());
  rdma_.lose_acknowledgements();
  ASSERT_NO_FATAL_FAILURE(post(pairs_[0]));
  ASSERT_TRUE(works_until([&] { return is_done(pairs_[0]); }));
  ASSERT_NO_FATAL_FAILURE(post(pairs_[1]));
  bool is_free = true;
  bool is_other_done = false;
  while_asleep = [&] {
    const InstanceCall own = instance(0);
    std::unique_lock other(own->mutex(), std::try_to_lock);
    is_free = is_free && other.owns_lock();
    if (!is_free) return;
    other.unlock();
    is_other_done = is_other_done || is_done(pairs_[1]);
  };
  deregister_ns(pairs_[0]);
  while_asleep = nullptr;
  EXPECT_TRUE(is_free);
  EXPECT_TRUE(is_other_done);
}

// Nothing was heard of the host: what read the memory has ended, as a session that times out does.
TEST_F(DeregistrationOverRdma, ThatNeedNotWaitAnyLongerDoesNotShowThatTheHostIsThere) {
  ASSERT_NO_FATAL_FAILURE(add_pair());
  rdma_.lose_acknowledgements();
  ASSERT_NO_FATAL_FAILURE(post(pairs_[0]));
  ASSERT_TRUE(works_until([&] { return is_done(pairs_[0]); }));
  const std::string host = static_cast<Comm*>(pairs_[0].sender)->peer().host;
  host_patience().on_finalized_in_vain(host, monotonic_ns());
  while_asleep = [this] {
    for (size_t end = 0; end < 2; ++end) rdma_.break_queue_pair();
  };
  const int64_t waited_ns = deregister_ns(pairs_[0]);
  while_asleep = nullptr;
  EXPECT_GT(waited_ns, 0);
  EXPECT_LT(waited_ns, ClosePatience::kFollowerGoodbyeNs);
  EXPECT_TRUE(host_patience().have_vanished({host}, monotonic_ns()));
}

}  // namespace
}  // namespace lyre::nccl_adapter
