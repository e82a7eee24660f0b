#pragma once

#include "stack/tcp/connection.h"

namespace lyre::tcp {

/// RFC 2018 4: `block` has just arrived out of order. It becomes the first, merged with the blocks
/// that it touches; the others follow, most recent first.
void add_sack_block(Connection& c, wire::SackBlock block);
/// rcv.nxt has reached `nxt`: blocks below are removed.
void drop_sack_blocks_below(Connection& c, SeqNum nxt);
/// Writes the SACK option of the next ACK, with at most `count_max` blocks, a duplicate first (RFC
/// 2883 4), and clears the duplicate.
void write_sack_option(Connection& c, uint32_t count_max, wire::TcpOptions& options);

}  // namespace lyre::tcp
