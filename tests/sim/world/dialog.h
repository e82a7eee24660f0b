#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/channel/abi.h"

namespace lyre::sim {

/// How an end leaves a dialog. The first three lose no data, whatever the other end does.
enum class Leaving : uint8_t {
  kShutdownWhenSent,
  kShutdownWhenHeard,
  kCloseWhenHeard,
  kCloseWhenSent,  ///< ignores what the other end still sends
  kAbortHalfway,
};

/// The behaviour of one end of a dialog.
struct EndPlan {
  uint32_t send_bytes = 0;
  uint32_t chunk_bytes = 1;  ///< of one send descriptor
  Nanos pause{0};            ///< between two of them
  Leaving leaving = Leaving::kShutdownWhenSent;
};

/// The progress of one end, as its application saw it.
struct EndState {
  channel::SessionName name;
  bool is_open = false;
  bool has_left = false;
  bool has_heard_finish = false;
  bool is_over = false;
  channel::EndStatus status = channel::EndStatus::kOk;
  uint32_t queued_bytes = 0;
  uint32_t received_bytes = 0;
  bool is_equal = true;
  uint64_t sends_queued = 0;
  uint64_t sends_done = 0;
  Nanos next_send_at{0};
  std::deque<uint32_t> blocks;  ///< of the arena, in use, by send descriptor
};

/// One connection from opening to end. End 0 connects, end 1 accepts.
struct Dialog {
  uint32_t dialer_host = 0;
  uint32_t dialer_client = 0;
  uint32_t acceptor_client = 0;
  uint32_t number = 0;       ///< no other of the world has it
  uint16_t dialer_port = 0;  ///< that it asks for; 0: the worker chooses
  /// Others of the world have the same port, one after the other. One that finds no port free dials
  /// again.
  bool shares_ports = false;
  uint16_t used_port = 0;  ///< of the dialer, as the worker said when it opened
  Nanos dialed_at{0};      ///< when it said so
  bool is_ipv6 = false;
  Nanos starts_at{0};
  bool is_clean = true;  ///< every byte must arrive and both ends must finish in order
  std::array<EndPlan, 2> plans;
  std::array<EndState, 2> ends;

  /// Of the stream that this end sends. Each differs from all others, whatever port it has, so that
  /// bytes of an earlier connection of the same 4-tuple are noticed.
  uint64_t stream_seed(uint32_t sender_end) const {
    return (uint64_t{number} * 2 + sender_end + 1) * 0xd1342543de82ef95u;
  }
};

using Dialogs = std::vector<Dialog>;

/// Each host has one address per family. IPv6 needs a link with at least its minimum MTU.
inline IpAddress address_of(uint32_t host, bool is_ipv6) {
  const auto last = static_cast<uint8_t>(1 + host);
  return is_ipv6 ? IpAddress{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}
                 : IpAddress::v4(0x0a090000u + last);
}

inline constexpr uint16_t kServicePort = 7000;  ///< of client 0, the next of client 1
inline constexpr uint16_t kFirstDialPort = 20000;

}  // namespace lyre::sim
