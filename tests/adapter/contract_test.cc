// The calling contract for each ABI version, one test for each clause. Rank 0 sends, rank 1
// receives.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/adapter/direct_memory.h"
#include "tests/adapter/link.h"

namespace lyre::test {
namespace {

using nccl_abi::kPtrCuda;
using nccl_abi::kPtrHost;

constexpr size_t kStepsInFlight = nccl_abi::kStepsInFlightMax;
void* const kHint = reinterpret_cast<void*>(nccl_abi::kOptionalRecvCompletion);

// The file that is mapped at `memory` in this process, as "device inode", and whether another
// process maps it.
std::string file_at(const void* memory) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<uintptr_t>(memory);
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char dash = 0;
    std::string mode, offset, device, inode;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> mode >> offset >> device >>
        inode;
    if (begin <= wanted && wanted < end) return device + " " + inode + " ";
  }
  return {};
}
bool is_mapped_by(pid_t process, const std::string& file) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" " + file) != std::string::npos) return true;
  }
  return false;
}

class Contract : public EachAbi {
 protected:
  /// Runs `body` on both ranks over a link of this ABI version.
  static void on_link(const std::function<void(Rank&, Link&)>& body, int seconds = 60) {
    const RankBody rank = [&](Rank& self) {
      Link link(self, GetParam());
      body(self, link);
      link.close();
      EXPECT_TRUE(logged_warnings().empty()) << logged_text();
    };
    expect_ranks({rank, rank}, seconds);
  }
};

INSTANTIATE_TEST_SUITE_P(Abi, Contract, all_abis(), name_of_abi);

TEST_P(Contract, PropertiesDescribeEveryPort) {
  expect_ranks({[](Rank& rank) {
    Link link(rank, GetParam(), Link::Unconnected{});
    int count = 0;
    ASSERT_EQ(link.plugin().devices(&count), Result::kSuccess);
    ASSERT_EQ(count, 1);
    NetProperties properties;
    ASSERT_EQ(link.plugin().get_properties(0, &properties), Result::kSuccess);
    EXPECT_FALSE(properties.name.empty());
    EXPECT_FALSE(properties.has_pci_path);
    EXPECT_EQ(properties.ptr_support, kPtrHost);
    EXPECT_GT(properties.speed_mbps, 0);
    EXPECT_EQ(properties.latency_us, 0);  // NCCL then uses its own figure
    EXPECT_EQ(properties.recvs_max, 1);
    EXPECT_GT(properties.comms_max, 0);
    EXPECT_GT(properties.p2p_bytes_max, 0u);
    EXPECT_LE(properties.p2p_bytes_max, nccl_abi::kNetBytesMax);
    EXPECT_EQ(link.plugin().get_properties(1, &properties), Result::kInvalidArgument);
    EXPECT_EQ(link.plugin().get_properties(-1, &properties), Result::kInvalidArgument);
    link.close();
  }});
}

// Ranks do not exchange it, so it comes from the job's environment, which is the same for all.
TEST_P(Contract, LatencyIsWhatTheJobSays) {
  expect_ranks({[](Rank& rank) {
    ::setenv("LYRE_LATENCY_US", "35", 1);
    Link link(rank, GetParam(), Link::Unconnected{});
    NetProperties properties;
    ASSERT_EQ(link.plugin().get_properties(0, &properties), Result::kSuccess);
    EXPECT_EQ(properties.latency_us, 35);
  }});
}

// Eight in flight, as NCCL's proxy has them.
void move_all_sizes(Rank& rank, Link& link) {
  const std::vector<size_t> sizes = {0,      1,        31,        32,     1448,   4096,
                                     65535,  65536,    65537,     131072, 524288, 614400,
                                     262112, 262113,   1u << 20,  7,      0,      (4u << 20) + 3,
                                     2,      1u << 20, 128 << 10, 3,      0,      1u << 20};
  struct Step {
    void* request;
    std::vector<uint8_t> data;
    uint64_t number;
  };
  std::deque<Step> in_flight;
  const auto finish_oldest = [&] {
    Step& step = in_flight.front();
    const size_t bytes = sizes[step.number];
    EXPECT_EQ(link.finish(step.request), static_cast<int>(bytes));
    if (rank.index() == 1) {
      step.data.resize(bytes);
      EXPECT_TRUE(step.data == pattern(step.number, bytes)) << "message " << step.number;
    }
    in_flight.pop_front();
  };
  for (uint64_t number = 0; number < sizes.size(); ++number) {
    if (in_flight.size() == kStepsInFlight) finish_oldest();
    Step& step = in_flight.emplace_back();
    step.number = number;
    if (rank.index() == 0) {
      step.data = pattern(number, sizes[number]);
      step.request = link.isend(step.data.data(), sizes[number]);
    } else {
      step.data.resize(sizes[number] + 17);  // a receive is an upper bound
      step.request = link.irecv(step.data.data(), step.data.size());
    }
  }
  while (!in_flight.empty()) finish_oldest();
}

TEST_P(Contract, MessagesOfAllSizesArriveWithEightInFlight) { on_link(move_all_sizes); }

TEST_P(Contract, MessagesOfAllSizesArriveOverSeveralStreams) {
  ::setenv("LYRE_STREAMS", "4", 1);
  on_link(move_all_sizes);
  ::unsetenv("LYRE_STREAMS");
}

TEST_P(Contract, IrecvOverwritesTheCompletionHint) {
  on_link([](Rank& rank, Link& link) {
    uint8_t byte = 42;
    if (rank.index() == 0) {
      for (int i = 0; i < 2; ++i) link.finish(link.isend(&byte, 1));
      return;
    }
    void* request = kHint;
    ASSERT_EQ(link.plugin().irecv(link.comm(), {&byte, 1}, &request), Result::kSuccess);
    ASSERT_NE(request, nullptr);
    ASSERT_NE(request, kHint);
    link.finish(request);
    link.finish(link.irecv(&byte, 1));
  });
}

TEST_P(Contract, ThirtyTwoRequestsThenNullUntilOneIsDone) {
  on_link([](Rank& rank, Link& link) {
    std::vector<uint8_t> bytes(nccl_abi::kRequestsMax + 1);
    std::vector<void*> requests;
    for (int i = 0; i < nccl_abi::kRequestsMax; ++i) {
      void* request = kHint;
      const size_t at = static_cast<size_t>(i);
      ASSERT_EQ(rank.index() == 0 ? link.plugin().isend(link.comm(), {&bytes[at], 1}, &request)
                                  : link.plugin().irecv(link.comm(), {&bytes[at], 1}, &request),
                Result::kSuccess);
      ASSERT_NE(request, nullptr) << i;
      requests.push_back(request);
    }
    void* one_too_many = kHint;
    ASSERT_EQ(rank.index() == 0 ? link.plugin().isend(link.comm(), {&bytes[32], 1}, &one_too_many)
                                : link.plugin().irecv(link.comm(), {&bytes[32], 1}, &one_too_many),
              Result::kSuccess);
    EXPECT_EQ(one_too_many, nullptr);
    rank.barrier();
    link.finish(requests[5]);  // any of them
    one_too_many = rank.index() == 0 ? link.isend(&bytes[32], 1) : link.irecv(&bytes[32], 1);
    EXPECT_NE(one_too_many, nullptr);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (i != 5) link.finish(requests[i]);
    }
    link.finish(one_too_many);
  });
}

TEST_P(Contract, ZeroBytesAreAMessage) {
  on_link([](Rank& rank, Link& link) {
    uint8_t byte = rank.index() == 0 ? 7 : 0;
    if (rank.index() == 0) {
      EXPECT_EQ(link.finish(link.isend(nullptr, 0)), 0);
      EXPECT_EQ(link.finish(link.isend(&byte, 1)), 1);
      EXPECT_EQ(link.finish(link.isend(&byte, 0)), 0);
    } else {
      EXPECT_EQ(link.finish(link.irecv(&byte, 1)), 0);
      EXPECT_EQ(link.finish(link.irecv(&byte, 1)), 1);
      EXPECT_EQ(byte, 7);
      EXPECT_EQ(link.finish(link.irecv(nullptr, 0)), 0);
    }
  });
}

TEST_P(Contract, RequestsMayBeTestedInAnyOrder) {
  on_link([](Rank& rank, Link& link) {
    constexpr size_t kCount = 8;
    constexpr size_t kBytes = 200'000;
    std::vector<std::vector<uint8_t>> data(kCount);
    std::vector<void*> requests(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      data[i] = rank.index() == 0 ? pattern(i, kBytes) : std::vector<uint8_t>(kBytes);
      requests[i] = rank.index() == 0 ? link.isend(data[i].data(), kBytes)
                                      : link.irecv(data[i].data(), kBytes);
    }
    for (const size_t i : {7u, 3u, 0u, 6u, 1u, 5u, 2u, 4u}) {
      EXPECT_EQ(link.finish(requests[i]), static_cast<int>(kBytes));
      if (rank.index() == 1) {
        EXPECT_TRUE(data[i] == pattern(i, kBytes)) << i;
      }
    }
  });
}

TEST_P(Contract, TestMayGetNoSizes) {
  on_link([](Rank& rank, Link& link) {
    uint8_t byte = 1;
    void* request = rank.index() == 0 ? link.isend(&byte, 1) : link.irecv(&byte, 1);
    int done = 0;
    EXPECT_TRUE(until([&] {
      EXPECT_EQ(link.plugin().test(request, &done, nullptr), Result::kSuccess);
      return done != 0;
    }));
  });
}

TEST_P(Contract, RequestsAreUsedAgain) {
  on_link([](Rank& rank, Link& link) {
    for (uint32_t i = 0; i < 2000; ++i) {
      uint32_t value = rank.index() == 0 ? i : 0;
      link.finish(rank.index() == 0 ? link.isend(&value, sizeof(value))
                                    : link.irecv(&value, sizeof(value)));
      ASSERT_EQ(value, i);
    }
  });
}

TEST_P(Contract, ALargeIsendIsDoneOnlyWhenTheReceiverHasPlacedIt) {
  constexpr size_t kBytes = 20'000;
  on_link([](Rank& rank, Link& link) {
    std::vector<uint8_t> data = pattern(1, kBytes);
    if (rank.index() == 0) {
      void* request = link.isend(data.data(), data.size());
      link.keep_testing(request, 100);  // long enough for every TCP acknowledgement
      rank.barrier();
      EXPECT_EQ(link.finish(request), static_cast<int>(kBytes));
      return;
    }
    rank.barrier();
    std::vector<uint8_t> got(kBytes);
    link.finish(link.irecv(got.data(), got.size()));
    EXPECT_TRUE(got == data);
  });
}

// NCCL's own transport has such a message in the socket.
TEST_P(Contract, SmallMessagesArriveAfterTheirSenderHasLeft) {
  on_link([](Rank& rank, Link& link) {
    constexpr uint64_t kMessages = 3;
    std::vector<uint8_t> data(1000);
    if (rank.index() == 0) {
      for (uint64_t i = 0; i < kMessages; ++i) {
        data = pattern(i, data.size());
        EXPECT_EQ(link.finish(link.isend(data.data(), data.size())), 1000);
      }
      link.close();
      rank.barrier();
      return;
    }
    rank.barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // its process has ended, too
    for (uint64_t i = 0; i < kMessages; ++i) {
      link.finish(link.irecv(data.data(), data.size()));
      EXPECT_TRUE(data == pattern(i, data.size()));
    }
  });
}

TEST_P(Contract, ASmallMessageArrivesAfterItsSendersProcessEndedWithoutAClose) {
  on_link([](Rank& rank, Link& link) {
    std::vector<uint8_t> data = pattern(1, 1000);
    if (rank.index() == 0) {
      link.finish(link.isend(data.data(), data.size()));
      rank.barrier();
      std::_Exit(0);
    }
    rank.barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<uint8_t> got(data.size());
    link.finish(link.irecv(got.data(), got.size()));
    EXPECT_TRUE(got == data);
  });
}

TEST_P(Contract, DataBeforeItsReceiveWaits) {
  on_link([](Rank& rank, Link& link) {
    constexpr size_t kCount = 16;
    constexpr size_t kBytes = 1 << 20;
    if (rank.index() == 0) {
      std::vector<std::vector<uint8_t>> data;
      std::vector<void*> requests;
      for (size_t i = 0; i < kCount; ++i) {
        data.push_back(pattern(i, kBytes));
        requests.push_back(link.isend(data[i].data(), kBytes));
      }
      link.keep_testing(requests.front(), 100);
      rank.barrier();
      for (void* request : requests) link.finish(request);
      return;
    }
    rank.barrier();
    std::vector<uint8_t> got(kBytes);
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(link.finish(link.irecv(got.data(), kBytes)), static_cast<int>(kBytes));
      EXPECT_TRUE(got == pattern(i, kBytes)) << i;
    }
  });
}

TEST_P(Contract, MemoryIsRegisteredAndDeregistered) {
  on_link([](Rank&, Link& link) {
    std::vector<uint8_t> memory(4096);
    void* mhandle = nullptr;
    ASSERT_EQ(link.plugin().reg_mr(link.comm(), memory.data(), memory.size(), kPtrHost, &mhandle),
              Result::kSuccess);
    EXPECT_NE(mhandle, nullptr);
    EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
  });
}

// NCCL's staging memory is shared anonymous memory, which the daemon can read in place.
TEST_P(Contract, RegisteredMemoryMayChangeOnceItsMessageIsDone) {
  on_link([](Rank& rank, Link& link) {
    constexpr size_t kBytes = 4 << 20;
    constexpr uint64_t kMessages = 20;
    const SharedPages shared(kBytes);
    uint8_t* memory = shared.data();
    const bool is_sent_in_place = rank.index() == 0 && is_direct(daemons().socket(0), shared);
    void* mhandle = nullptr;
    ASSERT_EQ(link.plugin().reg_mr(link.comm(), memory, kBytes, kPtrHost, &mhandle),
              Result::kSuccess);
    const pid_t daemon = daemons().pid(rank.index());
    const std::string file = file_at(memory);
    EXPECT_EQ(is_mapped_by(daemon, file), is_sent_in_place) << logged_text();
    for (uint64_t number = 0; number < kMessages; ++number) {
      const size_t bytes = number % 3 == 0 ? 100 : kBytes - number;
      const std::vector<uint8_t> expected = pattern(number, bytes);
      if (rank.index() == 0) {
        std::memcpy(memory, expected.data(), bytes);
        link.finish(link.isend(memory, bytes, mhandle));
        std::memset(memory, 0xee, kBytes);
      } else {
        EXPECT_EQ(link.finish(link.irecv(memory, kBytes)), static_cast<int>(bytes));
        EXPECT_EQ(std::memcmp(memory, expected.data(), bytes), 0) << number;
      }
    }
    EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
    EXPECT_FALSE(is_mapped_by(daemon, file)) << file;
    rank.barrier();
  });
}

TEST_P(Contract, DeregOfSharedMemoryInFlightTakesItFromTheDaemon) {
  expect_ranks(
      {[](Rank& rank) {
         constexpr size_t kBytes = 4 << 20;
         Link link(rank, GetParam());
         auto memory = std::make_unique<SharedPages>(kBytes);
         const std::string file = file_at(memory->data());
         void* mhandle = nullptr;
         ASSERT_EQ(link.plugin().reg_mr(link.comm(), memory->data(), kBytes, kPtrHost, &mhandle),
                   Result::kSuccess);
         EXPECT_EQ(is_mapped_by(daemons().pid(0), file), is_direct(daemons().socket(0), *memory));
         rank.barrier();  // the receive is posted
         link.isend(memory->data(), kBytes, mhandle);
         EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
         EXPECT_FALSE(is_mapped_by(daemons().pid(0), file)) << file;
         memory.reset();
         rank.barrier();
         link.close();
       },
       [](Rank& rank) {
         Link link(rank, GetParam());
         std::vector<uint8_t> data(4 << 20);
         link.irecv(data.data(), data.size());
         rank.barrier();
         rank.barrier();
         link.close();
       }});
}

TEST_P(Contract, OnlyHostMemoryIsTaken) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, GetParam());
    uint8_t byte = 0;
    void* mhandle = &byte;
    EXPECT_EQ(link.plugin().reg_mr(link.comm(), &byte, 1, kPtrCuda, &mhandle),
              Result::kInvalidUsage);
    EXPECT_EQ(mhandle, nullptr);
    EXPECT_TRUE(has_logged("only host memory")) << logged_text();
    void* request = kHint;
    EXPECT_NE(link.plugin().iflush(link.comm(), &byte, &request), Result::kSuccess);
    EXPECT_EQ(request, nullptr);
    rank.barrier();
    link.close();
  };
  expect_ranks({body, body});
}

TEST_P(Contract, AMessageLargerThanItsReceiveIsInvalidUsage) {
  expect_ranks({[](Rank& rank) {
                  Link link(rank, GetParam());
                  const std::vector<uint8_t> data(20000);
                  void* request = link.isend(data.data(), data.size());
                  EXPECT_EQ(link.finish_with_error(request), Result::kRemoteError);
                  EXPECT_TRUE(has_logged("20000 bytes, the receive posted for it 100"))
                      << logged_text();
                  rank.barrier();
                  link.close();
                },
                [](Rank& rank) {
                  Link link(rank, GetParam());
                  std::vector<uint8_t> data(20000, 1);
                  void* request = link.irecv(data.data(), 100);
                  EXPECT_EQ(link.finish_with_error(request), Result::kInvalidUsage);
                  EXPECT_EQ(count_logged("20000 bytes, the receive posted for it 100"), 1u)
                      << logged_text();
                  EXPECT_EQ(data, std::vector<uint8_t>(20000, 1));  // nothing was written
                  rank.barrier();
                  link.close();
                }});
}

// NCCL never asks, because recvs_max is 1 (decision 9).
TEST_P(Contract, AReceiveOfSeveralBuffersIsRefusedAndTheCommGoesOn) {
  expect_ranks({[](Rank& rank) {
                  Link link(rank, GetParam());
                  const std::vector<uint8_t> data(100, 7);
                  EXPECT_EQ(link.finish(link.isend(data.data(), data.size())), 100);
                  link.close();
                },
                [](Rank& rank) {
                  Link link(rank, GetParam());
                  std::vector<uint8_t> data(100, 1);
                  const nccl_emulator::Message half{.data = data.data(), .bytes = 50};
                  void* request = &link;
                  EXPECT_EQ(
                      link.plugin().irecv_group(link.comm(), std::array{half, half}, &request),
                      Result::kInvalidArgument);
                  EXPECT_EQ(request, nullptr);
                  EXPECT_TRUE(has_logged("irecv() of 2 buffers: maxRecvs is 1")) << logged_text();
                  EXPECT_EQ(link.finish(link.irecv(data.data(), data.size())), 100);
                  EXPECT_EQ(data, std::vector<uint8_t>(100, 7));
                  link.close();
                }});
}

}  // namespace
}  // namespace lyre::test
