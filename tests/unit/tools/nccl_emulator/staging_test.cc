#include "tools/nccl_emulator/staging.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/nccl_emulator/recording.h"
#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

TEST(Staging, IsOneAllocationWithARegistrationForEachProtocol) {
  const auto plugin = load_net_plugin(recording_plugin());
  recorded_calls().clear();
  int comm = 0;
  Staging staging;
  staging.create(*plugin, &comm);
  const RecordedCalls registered = recorded_calls();
  ASSERT_EQ(registered.size(), 3u);
  const size_t bytes[] = {kSlots * kLlSlotBytes, kLl128RegionBytes, kSlots * kSimpleSlotBytes};
  auto* next = static_cast<uint8_t*>(registered[0].data);
  for (size_t i = 0; i < registered.size(); ++i) {
    EXPECT_EQ(registered[i].function, "reg_mr");
    EXPECT_EQ(registered[i].comm, &comm);
    EXPECT_EQ(registered[i].data, next);
    EXPECT_EQ(registered[i].bytes, bytes[i]);
    EXPECT_EQ(registered[i].tag, nccl_abi::kPtrHost);
    next += bytes[i];
  }
  EXPECT_EQ(staging.slots(Protocol::kLl), registered[0].data);
  EXPECT_EQ(staging.slots(Protocol::kSimple), registered[2].data);
  EXPECT_EQ(staging.mhandle(Protocol::kSimple), reinterpret_cast<void*>(kRecordedMhandle));

  recorded_calls().clear();
  staging.destroy(*plugin, &comm);
  EXPECT_EQ(recorded_calls().size(), 3u);
  EXPECT_EQ(recorded_calls().back().function, "dereg_mr");
  staging.destroy(*plugin, &comm);  // nothing is left
  EXPECT_EQ(recorded_calls().size(), 3u);
  plugin->unload();
}

TEST(SharedPages, MoveLeavesNothingBehind) {
  SharedPages pages(1 << 16);
  uint8_t* data = pages.data();
  data[0] = 7;
  SharedPages moved(std::move(pages));
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(moved.bytes(), size_t{1} << 16);
  EXPECT_EQ(moved.data()[0], 7);
  EXPECT_EQ(SharedPages().data(), nullptr);
  EXPECT_THROW(SharedPages(SIZE_MAX / 2), Failure);
}

}  // namespace
}  // namespace lyre::nccl_emulator
