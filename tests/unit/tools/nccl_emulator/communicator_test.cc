#include "tools/nccl_emulator/communicator.h"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "tests/unit/tools/nccl_emulator/recording.h"
#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;

/// The bootstrap of ranks that are threads.
class ThreadBootstrap {
 public:
  std::vector<Bytes> all_gather(int rank, const Bytes& mine) {
    parts_[static_cast<size_t>(rank)] = mine;
    barrier_.arrive_and_wait();
    std::vector<Bytes> all = parts_;
    barrier_.arrive_and_wait();
    return all;
  }
  void meet() { barrier_.arrive_and_wait(); }

 private:
  std::vector<Bytes> parts_{kRanks};
  std::barrier<> barrier_{kRanks};
};

CommunicatorConfig config_of(int rank) {
  return {.plugin_path = kernel_plugin(),
          .comm_id = 1,
          .rank = rank,
          .hosts = {"A", "B", "A"},
          .channels = 2};
}

/// The sums of all ranks for several sizes and both protocols, over the kernel's loopback.
void run_rank(ThreadBootstrap& bootstrap, int rank, MovedBytes* crossed) {
  Communicator communicator(config_of(rank),
                            [&](const Bytes& mine) { return bootstrap.all_gather(rank, mine); });
  for (const size_t elements : {size_t{1}, size_t{1000}, size_t{400'000}}) {
    for (const Protocol protocol : {Protocol::kLl, Protocol::kSimple}) {
      std::vector<float> data(elements);
      for (size_t i = 0; i < elements; ++i) data[i] = static_cast<float>(i % 100 + rank);
      Operation operation = communicator.make_operation(data, protocol);
      communicator.progress().submit({&operation, 1});
      ASSERT_TRUE(communicator.progress().wait(20s));
      for (size_t i = 0; i < elements; ++i) {
        ASSERT_EQ(data[i], static_cast<float>(kRanks * (i % 100) + 3)) << i;
      }
      EXPECT_GT(operation.elapsed.count(), 0);
    }
  }
  EXPECT_GT(communicator.progress().steps_done(), 0u);
  *crossed = communicator.crossed();
  bootstrap.meet();
  communicator.close();
}

TEST(Communicator, SumsOverThreeRanks) {
  ThreadBootstrap bootstrap;
  MovedBytes crossed[kRanks];
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] { run_rank(bootstrap, rank, &crossed[rank]); });
    }
  }
  // Ranks 0 and 2 are on one host: 0 -> 1 -> 2 crosses, 2 -> 0 does not.
  EXPECT_GT(crossed[0].sent, 0u);
  EXPECT_EQ(crossed[0].received, 0u);
  EXPECT_EQ(crossed[1].received, crossed[0].sent);
  EXPECT_EQ(crossed[2].received, crossed[1].sent);
  EXPECT_EQ(crossed[2].sent, 0u);
}

TEST(Communicator, FailsWithWhatIsWrong) {
  const auto failure_of = [](const CommunicatorConfig& config, const AllGather& all_gather) {
    try {
      Communicator communicator(config, all_gather);
      return std::string("connected");
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
  };
  CommunicatorConfig config = config_of(0);
  EXPECT_EQ(failure_of(config, [](const Bytes&) { return std::vector<Bytes>(kRanks); }),
            "a handle is missing");
  const auto is_gone = [](const Bytes&) -> std::vector<Bytes> { throw Failure("bootstrap"); };
  EXPECT_EQ(failure_of(config, is_gone), "bootstrap");
  // The right neighbour is another listener, so no rank connects from the left.
  const auto other = load_net_plugin(kernel_plugin());
  HandleBuffer handle{};
  void* listen_comm = nullptr;
  ASSERT_EQ(other->init(2), nccl_abi::Result::kSuccess);
  ASSERT_EQ(other->listen(0, handle.data(), &listen_comm), nccl_abi::Result::kSuccess);
  config.connect_timeout_s = 0;
  config.channels = 1;
  const auto one_sided = [&](const Bytes&) {
    return std::vector<Bytes>(kRanks, Bytes(handle.begin(), handle.end()));
  };
  EXPECT_EQ(failure_of(config, one_sided),
            "no connection with rank 1 on host B and rank 2 on host A after 0 s");
  EXPECT_EQ(other->close_listen(listen_comm), nccl_abi::Result::kSuccess);
}

TEST(Communicator, FlagsOfOperationsDoNotOverlap) {
  ThreadBootstrap bootstrap;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&bootstrap, rank] {
      Communicator communicator(
          config_of(rank), [&](const Bytes& mine) { return bootstrap.all_gather(rank, mine); });
      std::vector<float> data(10'000);
      const Operation first = communicator.make_operation(data, Protocol::kLl);
      const Operation second = communicator.make_operation(data, Protocol::kLl);
      for (const auto& slices : first.ring) {
        EXPECT_LE(first.flag_base + slices.size(), second.flag_base);
      }
      bootstrap.meet();
      communicator.close();
    });
  }
}

TEST(ChooseProtocol, IsLlUpTo128KiB) {
  EXPECT_EQ(choose_protocol(4), Protocol::kLl);
  EXPECT_EQ(choose_protocol(128 << 10), Protocol::kLl);
  EXPECT_EQ(choose_protocol((128 << 10) + 4), Protocol::kSimple);
}

}  // namespace
}  // namespace lyre::nccl_emulator
