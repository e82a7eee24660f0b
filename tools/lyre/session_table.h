#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// What keeps a session from sending more.
enum class SendLimit : uint8_t {
  kApplication,  ///< all that was given was sent
  kReceiver,     ///< the peer's window is full
  kCongestion,   ///< the congestion window is full
  kPort,         ///< windows have room: it waits for the worker or for room in the port
};
SendLimit send_limit(const channel::SessionView& view);
const char* send_limit_name(SendLimit limit);

/// One line a session. A narrow table has kNarrowColumns at most: long addresses and labels are
/// cut. A wide one has everything that fits a line.
inline constexpr size_t kNarrowColumns = 100;
std::string session_table(const Snapshot& snapshot, const Snapshot* earlier, bool is_wide);

}  // namespace lyre::tools
