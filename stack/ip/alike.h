#pragma once

#include <cstdint>
#include <span>

#include "stack/base/seq_num.h"
#include "stack/io/packet.h"

namespace lyre::ip {

/// The fast twin of classify() for the packets of a stream. True only where classify() would call
/// `packet` a TCP segment that differs from the one before which `model` stood (its Ethernet, IPv4
/// and TCP headers, found good) in nothing but checksums, IP identification, text and sequence
/// number, which is `seq`; `payload` is its text then. False says nothing.
/// REQUIRES: both came from the same port in one burst, and `model` carried ACK as its only flag.
bool is_alike(const io::PacketBuf& packet, std::span<const uint8_t> model, SeqNum seq,
              std::span<const uint8_t>& payload);

/// Whether headers can be a model for is_alike(): IPv4 without options.
bool can_be_model(std::span<const uint8_t> headers);

}  // namespace lyre::ip
