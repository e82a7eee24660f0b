#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "stack/worker/inbox.h"

namespace lyre::worker {
namespace {

using Box = Mailbox<Command, 8>;

Command command_of(uint32_t context) {
  return {.kind = Command::Kind::kAttach, .context = context, .memory_bytes = context * 3u};
}

TEST(Mailbox, GivesInOrderWhatWasPostedAndRefusesWhenFull) {
  Box box;
  EXPECT_TRUE(box.is_empty());
  for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(box.try_post(command_of(i)));
  EXPECT_FALSE(box.try_post(command_of(8)));
  Command taken;
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(box.try_take(taken));
    EXPECT_EQ(taken.context, i);
  }
  EXPECT_FALSE(box.try_take(taken));
}

TEST(Mailbox, CarriesWholeCommandsBetweenTwoThreads) {
  auto box = std::make_unique<Box>();
  constexpr uint32_t kCount = 100'000;
  std::thread control([&] {
    for (uint32_t i = 0; i < kCount;) {
      if (box->try_post(command_of(i))) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  bool is_whole = true;
  for (uint32_t i = 0; i < kCount;) {
    Command taken;
    if (!box->try_take(taken)) {
      std::this_thread::yield();
      continue;
    }
    is_whole &= taken.context == i && taken.memory_bytes == i * 3u;
    ++i;
  }
  control.join();
  EXPECT_TRUE(is_whole);
}

}  // namespace
}  // namespace lyre::worker
