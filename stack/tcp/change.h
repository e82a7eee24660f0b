#pragma once

#include <cstdint>

namespace lyre::tcp {

/// What happened to a connection that its trace records: changes of state, never a segment that
/// only carries data. A call marks each at most once. They are recorded in this order.
enum class Change : uint8_t {
  kTimeout,              ///< RFC 6298: the retransmission timer ran out
  kFastRecovery,         ///< a loss was found: RFC 8985, RFC 6582
  kEcnReduction,         ///< the window was reduced for congestion marks
  kUndone,               ///< a reduction was spurious and is reverted
  kRecovered,            ///< everything of the reduced window is acknowledged
  kTailProbe,            ///< RFC 8985 7.3
  kRetransmitted,        ///< data was sent again
  kPathMtu,              ///< the segment size changed
  kSendWindowClosed,     ///< the peer has no room for what waits, or for what was sent
  kWindowProbe,          ///< RFC 9293 3.8.6.1
  kSendWindowOpen,       ///< the peer has room again
  kReceiveWindowClosed,  ///< this side advertises that it has no room
  kReceiveWindowOpen,
  kKeepaliveProbe,  ///< RFC 9293 3.8.4
  kResetSent,
  kState,  ///< of RFC 9293 3.3.2
  kCount,
};
inline constexpr uint32_t kChangeCount = static_cast<uint32_t>(Change::kCount);

/// A set of them.
class Changes {
 public:
  void add(Change change) { bits_ = static_cast<uint16_t>(bits_ | bit(change)); }
  bool has(Change change) const { return (bits_ & bit(change)) != 0; }
  bool any() const { return bits_ != 0; }

 private:
  static constexpr uint16_t bit(Change change) {
    return static_cast<uint16_t>(1u << static_cast<unsigned>(change));
  }
  uint16_t bits_ = 0;
};
static_assert(kChangeCount <= 16);

}  // namespace lyre::tcp
