#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/base/result.h"

namespace lyre::io::dpdk {

/// Bytes of a frame beyond its MTU: the Ethernet header and one VLAN tag.
inline constexpr uint32_t kFrameOverheadBytes = 14 + 4;

/// A parsed device string: "net_memif0,role=server,socket=/run/a.sock".
class DeviceArgs {
 public:
  static DeviceArgs parse(std::string_view device);

  const std::string& name() const { return name_; }
  /// The name without its number ("net_memif"), or "pci" for a PCI address.
  std::string_view driver() const;
  bool is_pci() const;
  /// Empty when absent.
  std::string_view value_of(std::string_view key) const;
  bool has(std::string_view key) const;
  /// Adds key=value unless the key is present.
  void set_default(std::string_view key, std::string value);
  std::string text() const;

 private:
  std::string name_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// Sets the options that a virtual device needs for `mtu_bytes` and `queue_count`, and removes
/// socket files that a crashed daemon left. Fails: an option that cannot work, with the reason.
Status prepare_virtual_device(DeviceArgs& args, uint32_t mtu_bytes, uint32_t queue_count);

}  // namespace lyre::io::dpdk
