#include "stack/tcp/state.h"

#include <gtest/gtest.h>

#include "stack/tcp/isn.h"
#include "stack/tcp/state_table.h"
#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

/// RFC 9293 3.3.2 figure 5, as text. docs/design/ARCHITECTURE.md may copy it.
TEST(StateTable, ReadsAsTheDiagram) {
  std::string text;
  for (uint32_t from = 0; from < kStateCount; ++from) {
    text += std::string(state_name(static_cast<State>(from))) + " ->";
    for (uint32_t to = 0; to < kStateCount; ++to) {
      if (!is_legal_move(static_cast<State>(from), static_cast<State>(to))) continue;
      text += std::string(" ") + state_name(static_cast<State>(to));
    }
    text += "\n";
  }
  EXPECT_EQ(text,
            "CLOSED -> SYN-SENT SYN-RECEIVED\n"
            "SYN-SENT -> CLOSED SYN-RECEIVED ESTABLISHED\n"
            "SYN-RECEIVED -> CLOSED ESTABLISHED\n"
            "ESTABLISHED -> CLOSED FIN-WAIT-1 CLOSE-WAIT\n"
            "FIN-WAIT-1 -> CLOSED FIN-WAIT-2 CLOSING TIME-WAIT\n"
            "FIN-WAIT-2 -> CLOSED TIME-WAIT\n"
            "CLOSE-WAIT -> CLOSED LAST-ACK\n"
            "CLOSING -> CLOSED TIME-WAIT\n"
            "LAST-ACK -> CLOSED\n"
            "TIME-WAIT -> CLOSED\n");
}

TEST(Isn, MovesWithTheClockAndDiffersByTuple) {  // RFC 6528 3
  const SipKey key{.k0 = 1, .k1 = 2};
  FourTuple tuple;
  tuple.local.port = 1;
  const SeqNum first = initial_seq(tuple, key, seconds(1));
  EXPECT_EQ(initial_seq(tuple, key, seconds(1) + micros(4)).since(first), 1u);
  tuple.local.port = 2;
  EXPECT_NE(initial_seq(tuple, key, seconds(1)), first);
  EXPECT_NE(initial_seq(tuple, {.k0 = 3, .k1 = 2}, seconds(1)),
            initial_seq(tuple, key, seconds(1)));
}

TEST(Snapshot, GoesOnLikeTheOriginal) {
  Peer peer;
  peer.dial();
  peer.app_send(5000);
  peer.text(1000, 100);
  Engine copy({}, {}, 99);
  copy.copy_from(peer.engine);
  const auto from_original = peer.all();
  std::vector<SegmentOut> from_copy;
  while (auto segment = copy.poll_transmit(peer.conn, 0, peer.now)) from_copy.push_back(*segment);
  ASSERT_EQ(from_copy.size(), from_original.size());
  for (size_t i = 0; i < from_copy.size(); ++i) {
    EXPECT_EQ(from_copy[i].seq, from_original[i].seq);
    EXPECT_EQ(from_copy[i].options.sack_count, from_original[i].options.sack_count);
  }
  copy.check_invariants(peer.conn);
}

}  // namespace
}  // namespace lyre::tcp
