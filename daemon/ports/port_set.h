#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/ports/device_counters.h"
#include "daemon/ports/link_watch.h"
#include "daemon/protocol/handover_records.h"
#include "daemon/stats/stats_segment.h"
#include "stack/channel/control.h"
#include "stack/io/backend.h"
#include "stack/worker/worker.h"

namespace lyre {

/// The open ports, with the numbers that they have in the configuration.
/// Thread: the control thread. Owner: borrows the configuration; ends after the workers and before
/// the memories.
class PortSet {
 public:
  explicit PortSet(const Config& config) : config_(config) {}

  static constexpr uint32_t kAll = UINT32_MAX;

  /// Opens those of the ports `which` (bit n: port n) that are not open, with a queue for each
  /// memory. All must be open before anything else is called.
  /// Fails: one line that names the configuration's line; those before stay open.
  /// `earlier`: the ports of an earlier process; none: there was none.
  Status open(io::Backend& backend, std::span<io::PacketMemory* const> memories,
              std::span<const PortRecord> earlier = {}, uint32_t which = kAll);
  /// Drops what open ports have received so far. REQUIRES: no worker polls.
  void discard_received(std::span<io::PacketMemory* const> memories);

  uint32_t count() const { return static_cast<uint32_t>(config_.ports.size()); }
  /// By port: the addresses of IPv6 that an earlier process has used, and of which it knew that no
  /// other host has them. Workers probe for all others before they use them (RFC 4862 5.4).
  void set_verified(std::vector<std::vector<IpAddress>> addresses) {
    verified_ = std::move(addresses);
  }
  /// The ports as a worker's bindings.
  std::vector<worker::PortBinding> bindings(uint32_t worker) const;
  /// A worker's queues, one of each port.
  std::vector<io::PacketIo*> queues(uint32_t worker) const;

  /// The configured addresses and, unless the port is beside the kernel, the link-local one, which
  /// workers derive in the same way.
  std::vector<Cidr> addresses_of(uint32_t port) const;
  std::vector<channel::PortInfo> infos() const;
  /// Writes the ports into the stats segment, with the present state of their links.
  void show(const StatsSegment& stats) const;
  /// Rows that show the neighbours of all ports that one worker can know, within a limit.
  uint32_t neighbour_rows() const;
  /// For LinkWatch, which updates the links in the stats segment.
  std::vector<WatchedLink> links(const StatsSegment& stats) const;
  /// Lets ports look at their devices, and shows and logs the state of each, and its warning. Call
  /// about once a second.
  void look_after_devices(const StatsSegment& stats, Nanos now);
  /// For DeviceCounters.
  std::vector<CountedDevice> devices(const StatsSegment& stats) const;

  /// The steps of io::Port for all ports that need a restart; the others go on.
  bool must_suspend() const;
  /// REQUIRES: no worker polls.
  void suspend();
  /// Restarts one port, another one each time: it may take a second of the control thread. Workers
  /// may poll. A failure is logged once.
  void restart();
  /// A port whose turn was taken by memory that is being mapped: see io::Port::waits_for_memory().
  bool waits_for_memory() const;
  bool must_resume() const;
  /// REQUIRES: no worker polls.
  void resume();

  /// Called after each port, because one may take seconds: see Notifier::keep_alive().
  using KeepAlive = std::function<void()>;
  /// Closes those of the ports `which` that are open, for another process. REQUIRES: no worker
  /// polls.
  void close(uint32_t which, const KeepAlive& keep_alive);
  /// Opens again what was closed. What cannot be opened now is opened later, as after any failure.
  /// REQUIRES: no worker polls.
  void reopen(const KeepAlive& keep_alive);
  /// For another process that opens the ports.
  std::vector<PortRecord> records() const;
  /// The ports of which io::PortInfo::frees_twice_when_closed says that only a process that ends
  /// may close them. Bit n: port n.
  uint32_t that_free_twice() const;

  /// Writes a line about each port to the log.
  void log() const;
  /// Names and first addresses: "rail0 10.9.0.1, rail1 10.9.1.1".
  std::string summary() const;

 private:
  Status open_one(uint32_t port, io::Backend& backend, std::span<io::PacketMemory* const> memories,
                  std::span<const PortRecord> earlier);
  Status check_link_local(uint32_t port) const;
  Status check_slots(std::span<io::PacketMemory* const> memories) const;
  void join_groups(uint32_t port);
  void restart(uint32_t port);
  void log_warning(uint32_t port);
  io::PortSpeed speed_of(uint32_t port) const;
  void show_speed(uint32_t port, channel::StatsPort& shown) const;

  /// How far the restart of a port has come.
  enum class Restart : uint8_t { kNone, kSuspended, kDone };
  struct Upkeep {
    Restart restart = Restart::kNone;
    std::string failure;  ///< of the last attempt, as it was logged
    std::string warning;  ///< of the port, as it was logged
  };

  const Config& config_;
  std::vector<std::unique_ptr<io::Port>> ports_;  ///< null: not open yet
  std::vector<Upkeep> upkeeps_;                   ///< one for each port
  std::vector<std::vector<IpAddress>> verified_;  ///< by port
  uint32_t restarts_next_ = 0;                    ///< the port that restart() looks at first
};

}  // namespace lyre
