#include "stack/tcp/sack_blocks.h"

#include <algorithm>

namespace lyre::tcp {

void add_sack_block(Connection& c, wire::SackBlock block) {
  ReceiveState& rcv = c.rcv;
  std::array<wire::SackBlock, wire::kSackBlocksMax> others;
  uint8_t count = 0;
  for (uint8_t i = 0; i < rcv.sack_count; ++i) {
    const wire::SackBlock& known = rcv.sacks[i];
    const bool touches = known.start.at_or_before(block.end) && known.end.at_or_after(block.start);
    if (touches) {
      block.start = earliest(block.start, known.start);
      block.end = latest(block.end, known.end);
    } else {
      others[count++] = known;
    }
  }
  count = std::min<uint8_t>(count, wire::kSackBlocksMax - 1);
  rcv.sacks[0] = block;
  for (uint8_t i = 0; i < count; ++i) rcv.sacks[i + 1] = others[i];
  rcv.sack_count = static_cast<uint8_t>(count + 1);
}

void drop_sack_blocks_below(Connection& c, SeqNum nxt) {
  ReceiveState& rcv = c.rcv;
  uint8_t count = 0;
  for (uint8_t i = 0; i < rcv.sack_count; ++i) {
    if (rcv.sacks[i].end.at_or_before(nxt)) continue;
    rcv.sacks[count] = rcv.sacks[i];
    rcv.sacks[count].start = latest(rcv.sacks[count].start, nxt);
    ++count;
  }
  rcv.sack_count = count;
}

void write_sack_option(Connection& c, uint32_t count_max, wire::TcpOptions& options) {
  ReceiveState& rcv = c.rcv;
  uint8_t count = 0;
  if (rcv.has_dsack) {
    options.sacks[count++] = rcv.dsack;
    rcv.has_dsack = false;
  }
  for (uint8_t i = 0; i < rcv.sack_count && count < count_max; ++i) {
    options.sacks[count++] = rcv.sacks[i];
  }
  options.sack_count = count;
}

}  // namespace lyre::tcp
