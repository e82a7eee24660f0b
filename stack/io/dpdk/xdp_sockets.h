#pragma once

#include <cstdint>
#include <vector>

namespace lyre::io::dpdk {

/// The sockets of DPDK's AF_XDP driver. It does not return them: they are those that appear while
/// the device is opened.
/// Thread: the control thread. Owner: *borrows* them from the driver.
class XdpSockets {
 public:
  /// Call before the device is opened.
  void begin();
  /// Call when the device has started, or could not be. Without begin() it finds none; without a
  /// descriptor to look by, in either of them, neither.
  void find();
  /// Call when the device is closed.
  void end();

  /// The socket of a queue; -1: it has none.
  int of_queue(uint16_t queue) const { return queue < found_.size() ? found_[queue] : -1; }
  /// A NIC writes into the memory of a socket itself, or may do so, also where the sockets are not
  /// known. REQUIRES: they are open.
  bool is_any_zero_copy() const;

 private:
  bool has_begun_ = false;
  bool is_known_ = true;  ///< false: there was no descriptor to look by since begin()
  std::vector<int> before_;
  std::vector<int> found_;
};

}  // namespace lyre::io::dpdk
