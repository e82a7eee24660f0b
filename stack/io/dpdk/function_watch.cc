#include "stack/io/dpdk/function_watch.h"

#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/nic_check.h"
#include "stack/io/dpdk/port_search.h"

namespace lyre::io::dpdk {
namespace {

/// Of a function that is not in use.
FunctionState unused_state(const std::string& mac) {
  const std::string function = pci_function_with(mac);
  if (function.empty()) return FunctionState::kAway;
  const bool lacks_driver = is_mana_without_driver(function, driver_folder());
  return lacks_driver ? FunctionState::kWithoutDriver : FunctionState::kUnused;
}

}  // namespace

void FunctionWatch::look(const DeviceArgs& args, uint16_t netvsc_port, Nanos now) {
  const std::string mac(args.value_of("mac"));
  if (mac.empty()) return;
  const auto is_used = is_function_used(netvsc_port);
  if (is_used) note(*is_used ? FunctionState::kUsed : unused_state(mac), now);
}

void FunctionWatch::note(FunctionState state, Nanos now) {
  const auto since = [now](bool holds, Nanos before) {
    return holds ? earlier(before, now) : kNever;
  };
  state_ = state;
  now_ = now;
  has_changed_ = has_changed_ || state == FunctionState::kUsed || state == FunctionState::kAway;
  on_host_since_ = since(state != FunctionState::kUsed, on_host_since_);
  unused_since_ = since(state == FunctionState::kUnused, unused_since_);
}

/// A restart alone does not open a function that DPDK could not open at its start.
std::string FunctionWatch::warning(const std::string& first_error) const {
  const auto lasts = [this](Nanos since, Nanos time) {
    return since != kNever && now_ - since >= time;
  };
  if (!lasts(on_host_since_, kToldAfter)) return "";
  const std::string text =
      "sends and receives through the host, which is slower: its virtual function is not in use";
  if (state_ == FunctionState::kWithoutDriver) {
    return text + ": it " + lacks_mana_driver(dpdk_version());
  }
  if (!lasts(unused_since_, kUsedWithin)) return text;
  if (has_changed_) return text + ", and DPDK does not look for it any more: restart the daemon";
  return text + ": DPDK did not open it when it started" +
         (first_error.empty() ? "" : ", and said first: " + first_error);
}

std::vector<DeviceCounter> FunctionWatch::with_path(std::vector<DeviceCounter> counters) const {
  if (on_host_since_ != kNever) counters.push_back({.name = "on_host_path", .value = 1});
  return counters;
}

}  // namespace lyre::io::dpdk
