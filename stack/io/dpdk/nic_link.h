#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "stack/base/nanos.h"
#include "stack/io/dpdk/doubling_pause.h"
#include "stack/io/dpdk/driver_quirks.h"
#include "stack/io/dpdk/port_setup.h"

namespace lyre::io::dpdk {

/// What is known of the link of a NIC. Some drivers sleep until the device has answered: they are
/// asked seldom, however often the link is looked at.
/// Thread: the control thread; what shown() points to may be read on any.
class NicLink {
 public:
  /// Between an answer of a driver that is slow to tell and the next question, while the link is up
  /// and while it is down.
  static constexpr Nanos kUpPeriod = seconds(5);
  static constexpr Nanos kDownPeriod = seconds(1);

  /// A question that took so long is one that the host did not answer: netvsc waits for a minute.
  /// The time to the next one doubles with each.
  static constexpr Nanos kSilentFor = seconds(5);
  static constexpr Nanos kSilentPeriodMin = seconds(10);
  static constexpr Nanos kSilentPeriodMax = seconds(60);

  static Nanos steady_now();
  /// `now` reads a monotonic clock: how long a driver takes is measured here.
  explicit NicLink(Nanos (*now)() = steady_now) : now_(now) {}

  /// Asks the driver, where an answer is due. A link of which the driver cannot tell is up.
  void update(uint16_t port_id, const DriverQuirks& quirks, const PortSetup& setup);
  /// The device was started again: the driver is asked in the next update().
  void forget();
  /// 0: unknown. Of a driver that is slow to tell: as of the last update() that asked.
  uint32_t speed_mbps(uint16_t port_id, const DriverQuirks& quirks) const;
  const std::atomic<bool>* shown() const { return &is_up_; }

 private:
  /// Returns whether the link is up.
  bool ask(uint16_t port_id, const PortSetup& setup);
  void ask_if_due(uint16_t port_id, const PortSetup& setup);

  Nanos (*const now_)();
  // Relaxed: a lone flag, one writer.
  std::atomic<bool> is_up_{false};
  std::optional<uint32_t> last_mbps_;
  Nanos due_at_;
  DoublingPause silent_pause_{kSilentPeriodMin, kSilentPeriodMax};
};

}  // namespace lyre::io::dpdk
