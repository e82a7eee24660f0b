#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// Which sessions `lyre sessions` shows, and in which order. An empty member matches
/// every session.
struct SessionFilter {
  std::string state;             ///< as session_state_name() has it; case does not count
  std::string peer;              ///< an address, or an address and port as they are printed
  std::optional<uint16_t> port;  ///< of either side
  std::optional<int32_t> pid;
  std::string label;           ///< a part of the owner's label
  bool has_time_wait = false;  ///< also shows sessions that only wait for stray packets
  enum class Order { kNone, kSent, kReceived, kRetransmitted, kRtt, kAge, kQueued };
  Order order = Order::kNone;
};

/// By all members but has_time_wait and order.
bool is_wanted(const channel::SessionView& view, const SessionFilter& filter);

/// Keeps the sessions that `filter` selects, the largest first where it has an order. Rates are
/// those of rates_of(). Returns how many in TIME-WAIT were left out for no other reason.
uint32_t keep_wanted(std::vector<channel::SessionView>& sessions, const SessionFilter& filter,
                     int64_t taken_unix_ns, const Snapshot* earlier);

}  // namespace lyre::tools
