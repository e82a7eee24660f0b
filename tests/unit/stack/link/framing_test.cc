#include "stack/link/framing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lyre::link {
namespace {

/// A received frame of `bytes` bytes, counted up, with these at the place of the type.
struct ReceivedFrame {
  ReceivedFrame(size_t bytes, std::vector<uint8_t> type_and_more) : memory(bytes) {
    std::iota(memory.begin(), memory.end(), uint8_t{0});
    std::copy(type_and_more.begin(), type_and_more.end(), memory.begin() + 12);
    packet.data = memory.data();
    packet.length = static_cast<uint32_t>(bytes);
    packet.headroom = 128;
  }
  std::vector<uint8_t> bytes() const { return {packet.bytes().begin(), packet.bytes().end()}; }

  std::vector<uint8_t> memory;
  io::PacketBuf packet;
};

TEST(RemovePriorityTag, LeavesTheFrameAsItWouldBeUntagged) {
  ReceivedFrame frame(64, {0x81, 0x00, 0xe0, 0x00, 0x08, 0x00});
  std::vector<uint8_t> untagged = frame.memory;
  untagged.erase(untagged.begin() + 12, untagged.begin() + 16);
  ASSERT_TRUE(remove_priority_tag(frame.packet));
  EXPECT_EQ(frame.bytes(), untagged);
  EXPECT_EQ(frame.packet.headroom, 132);
  EXPECT_FALSE(remove_priority_tag(frame.packet));
}

TEST(RemovePriorityTag, LeavesOtherFramesAlone) {
  const std::vector<uint8_t> others[] = {{0x08, 0x00, 0x00, 0x00},   // no tag
                                         {0x81, 0x00, 0x00, 0x05},   // of a VLAN
                                         {0x81, 0x00, 0xef, 0xff},   // of another
                                         {0x88, 0xa8, 0x00, 0x00}};  // a tag of a provider's bridge
  for (const std::vector<uint8_t>& type : others) {
    ReceivedFrame frame(64, type);
    EXPECT_FALSE(remove_priority_tag(frame.packet));
    EXPECT_EQ(frame.bytes(), frame.memory);
  }
}

TEST(RemovePriorityTag, AFrameMayEndInItsTag) {
  for (const size_t bytes : {16u, 17u}) {
    ReceivedFrame frame(bytes, {0x81, 0x00, 0x00, 0x00});
    EXPECT_FALSE(remove_priority_tag(frame.packet));
    EXPECT_EQ(frame.packet.length, bytes);
  }
  ReceivedFrame shortest(18, {0x81, 0x00, 0x00, 0x00, 0x08, 0x00});
  EXPECT_TRUE(remove_priority_tag(shortest.packet));
  EXPECT_EQ(shortest.packet.length, wire::kEthernetHeaderBytes);
}

}  // namespace
}  // namespace lyre::link
