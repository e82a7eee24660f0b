#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/tcp/state.h"

namespace lyre::tcp {

constexpr uint16_t state_bit(State state) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(state));
}

/// RFC 9293 3.3.2 figure 5 as data: row = from, bits = to. RST, user timeout and abort lead to
/// CLOSED from every state. tests/unit prints it.
inline constexpr std::array<uint16_t, kStateCount> kLegalNext = {
    /* CLOSED       */ static_cast<uint16_t>(state_bit(State::kSynSent) |
                                             state_bit(State::kSynReceived)),
    /* SYN-SENT     */
    static_cast<uint16_t>(state_bit(State::kSynReceived) | state_bit(State::kEstablished) |
                          state_bit(State::kClosed)),
    /* SYN-RECEIVED */
    static_cast<uint16_t>(state_bit(State::kEstablished) | state_bit(State::kClosed)),
    /* ESTABLISHED  */
    static_cast<uint16_t>(state_bit(State::kFinWait1) | state_bit(State::kCloseWait) |
                          state_bit(State::kClosed)),
    /* FIN-WAIT-1   */
    static_cast<uint16_t>(state_bit(State::kFinWait2) | state_bit(State::kClosing) |
                          state_bit(State::kTimeWait) | state_bit(State::kClosed)),
    /* FIN-WAIT-2   */
    static_cast<uint16_t>(state_bit(State::kTimeWait) | state_bit(State::kClosed)),
    /* CLOSE-WAIT   */
    static_cast<uint16_t>(state_bit(State::kLastAck) | state_bit(State::kClosed)),
    /* CLOSING      */
    static_cast<uint16_t>(state_bit(State::kTimeWait) | state_bit(State::kClosed)),
    /* LAST-ACK     */ state_bit(State::kClosed),
    /* TIME-WAIT    */ state_bit(State::kClosed),
};

constexpr bool is_legal_move(State from, State to) {
  return (kLegalNext[static_cast<size_t>(from)] & state_bit(to)) != 0;
}

/// Any of the states in `bits`, e.g. is_one_of(state, kMayReceiveText).
constexpr bool is_one_of(State state, uint16_t bits) { return (state_bit(state) & bits) != 0; }

/// RFC 9293 3.10.7.4, seventh: text is accepted in these states only.
inline constexpr uint16_t kMayReceiveText = static_cast<uint16_t>(
    state_bit(State::kEstablished) | state_bit(State::kFinWait1) | state_bit(State::kFinWait2));
/// The handshake is not complete.
inline constexpr uint16_t kOpening =
    static_cast<uint16_t>(state_bit(State::kSynSent) | state_bit(State::kSynReceived));
/// States in which text or a FIN of ours may be unacknowledged.
inline constexpr uint16_t kMaySendText = static_cast<uint16_t>(
    state_bit(State::kEstablished) | state_bit(State::kCloseWait) | state_bit(State::kFinWait1) |
    state_bit(State::kClosing) | state_bit(State::kLastAck));

}  // namespace lyre::tcp
