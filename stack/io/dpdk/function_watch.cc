#include "stack/io/dpdk/function_watch.h"

#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/port_search.h"

namespace lyre::io::dpdk {

void FunctionWatch::look(const DeviceArgs& args, uint16_t netvsc_port, Nanos now) {
  const std::string mac(args.value_of("mac"));
  if (mac.empty()) return;
  const auto function = find_function(netvsc_port);
  const bool is_used = function && is_started(*function);
  note(is_used, !is_used && !pci_function_with(mac).empty(), now);
}

void FunctionWatch::note(bool is_used, bool is_there, Nanos now) {
  is_on_host_path_ = !is_used;
  there_since_ = is_used || !is_there ? kNever : earlier(there_since_, now);
  is_lost_ = there_since_ != kNever && now - there_since_ >= kUsedWithin;
}

std::string FunctionWatch::warning() const {
  if (!is_on_host_path_) return "";
  const std::string text =
      "sends and receives through the host, which is slower: its virtual function is not in use";
  return is_lost_ ? text + ", and DPDK does not look for it any more: restart the daemon" : text;
}

std::vector<DeviceCounter> FunctionWatch::with_path(std::vector<DeviceCounter> counters) const {
  if (is_on_host_path_) counters.push_back({.name = "on_host_path", .value = 1});
  return counters;
}

}  // namespace lyre::io::dpdk
