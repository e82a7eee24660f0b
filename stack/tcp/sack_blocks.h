#pragma once

#include "stack/tcp/connection.h"

namespace lyre::tcp {

/// RFC 2018 4: `block` has just arrived out of order. It goes first, grown by what it touches; the
/// others follow by age.
void add_sack_block(Connection& c, wire::SackBlock block);
/// rcv.nxt has reached `nxt`: blocks below are acknowledged.
void drop_sack_blocks_below(Connection& c, SeqNum nxt);
/// Writes the SACK option for the next ACK, at most `count_max` blocks, a duplicate first (RFC 2883
/// 4), and forgets the duplicate.
void write_sack_option(Connection& c, uint32_t count_max, wire::TcpOptions& options);

}  // namespace lyre::tcp
