#pragma once

#include <cstdint>

namespace lyre::io::dpdk {

/// What it means that a driver's counter has fallen.
enum class Fall : uint8_t {
  kBegunAgain,  ///< it counts from zero
  kPartGone,    ///< it is a sum, and a device that it included is gone: the rest was counted before
};

/// The sum of a device's counter, whose driver may begin at zero again: some do when the device is
/// reset, some whenever it is started, and others go on.
/// Thread: one.
class RisingCounter {
 public:
  /// The driver says `reading` now. With Fall::kPartGone what was counted between the two readings
  /// of a fall is lost.
  void note(uint64_t reading, Fall fall) {
    if (reading < last_) before_ += last_ - (fall == Fall::kPartGone ? reading : 0);
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
