#pragma once

#include <cstdint>

namespace lyre::io::dpdk {

/// The sum of a device's counter, whose driver may begin at zero again: some do when the device is
/// reset, some whenever it is started, and others go on.
/// Thread: one.
class RisingCounter {
 public:
  /// The driver says `reading` now.
  void note(uint64_t reading) {
    if (reading < last_) restart();
    last_ = reading;
  }
  /// The next reading is of a device that was opened again.
  void restart() {
    before_ += last_;
    last_ = 0;
  }
  uint64_t total() const { return before_ + last_; }

 private:
  uint64_t before_ = 0;
  uint64_t last_ = 0;
};

}  // namespace lyre::io::dpdk
