#include "tools/lyre/session_filter.h"

#include <strings.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "tools/lyre/sessions.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

double order_key(const channel::SessionView& view, SessionFilter::Order order,
                 int64_t taken_unix_ns, const Snapshot* earlier) {
  switch (order) {
    case SessionFilter::Order::kSent:
      return rates_of(view, taken_unix_ns, earlier).sent_bits_per_s;
    case SessionFilter::Order::kReceived:
      return rates_of(view, taken_unix_ns, earlier).received_bits_per_s;
    case SessionFilter::Order::kRetransmitted:
      return static_cast<double>(view.bytes_retransmitted);
    case SessionFilter::Order::kRtt:
      return static_cast<double>(view.srtt_ns);
    case SessionFilter::Order::kAge:
      return -static_cast<double>(view.opened_unix_ns);
    case SessionFilter::Order::kQueued:
      return view.send_queue_bytes;
    case SessionFilter::Order::kNone:
      break;
  }
  return 0;
}

/// The largest first. Each key is made once: there may be 64 workers with 16384 sessions.
void sort(std::vector<channel::SessionView>& sessions, SessionFilter::Order order,
          int64_t taken_unix_ns, const Snapshot* earlier) {
  std::vector<std::pair<double, size_t>> keys;
  for (const auto& view : sessions) {
    keys.emplace_back(order_key(view, order, taken_unix_ns, earlier), keys.size());
  }
  std::ranges::stable_sort(keys, std::greater{}, &std::pair<double, size_t>::first);
  std::vector<channel::SessionView> sorted;
  for (const auto& [key, index] : keys) sorted.push_back(sessions[index]);
  sessions = std::move(sorted);
}

}  // namespace

bool is_wanted(const channel::SessionView& view, const SessionFilter& filter) {
  if (!filter.state.empty() && ::strcasecmp(filter.state.c_str(), session_state_name(view)) != 0) {
    return false;
  }
  if (filter.port && view.local_port != *filter.port && view.remote_port != *filter.port) {
    return false;
  }
  if (filter.pid && view.pid != *filter.pid) return false;
  const std::string_view label(view.label, ::strnlen(view.label, sizeof view.label));
  if (label.find(filter.label) == std::string_view::npos) return false;
  if (filter.peer.empty()) return true;
  return view.is_listener == 0 &&
         (format_address(view.remote_address) == filter.peer ||
          format_endpoint(view.remote_address, view.remote_port) == filter.peer);
}

uint32_t keep_wanted(std::vector<channel::SessionView>& sessions, const SessionFilter& filter,
                     int64_t taken_unix_ns, const Snapshot* earlier) {
  std::erase_if(sessions, [&](const auto& view) { return !is_wanted(view, filter); });
  const size_t wanted = sessions.size();
  if (!filter.has_time_wait && filter.state.empty()) {
    std::erase_if(sessions, is_time_wait);
  }
  if (filter.order != SessionFilter::Order::kNone) {
    sort(sessions, filter.order, taken_unix_ns, earlier);
  }
  return static_cast<uint32_t>(wanted - sessions.size());
}

}  // namespace lyre::tools
