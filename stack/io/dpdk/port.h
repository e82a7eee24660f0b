#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/device_events.h"
#include "stack/io/dpdk/dma_map.h"
#include "stack/io/dpdk/driver_timers.h"
#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/extended_stats.h"
#include "stack/io/dpdk/function_watch.h"
#include "stack/io/dpdk/interface_groups.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/memif_listener.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/nic_link.h"
#include "stack/io/dpdk/port_setup.h"
#include "stack/io/dpdk/queue.h"
#include "stack/io/dpdk/retry_clock.h"
#include "stack/io/dpdk/rising_counter.h"
#include "stack/io/dpdk/rx_wait.h"
#include "stack/io/dpdk/tx_watch.h"
#include "stack/io/dpdk/watched_pool.h"
#include "stack/io/dpdk/xdp_program.h"
#include "stack/io/dpdk/xdp_sockets.h"

struct rte_device;

namespace lyre::io::dpdk {

/// A port on a DPDK Ethernet device.
class EthernetPort final : public Port {
 public:
  static Result<std::unique_ptr<Port>> open(const PortOptions& options, DmaMap& dma_map,
                                            std::span<Memory* const> memories);
  ~EthernetPort() override;

  const PortInfo& info() const override { return info_; }
  PacketIo& queue(uint32_t worker) override { return *queues_[worker]; }
  bool is_link_up() const override;
  PortState state() const override { return events_.state(); }
  void on_link_up() override;
  void look(Nanos now) override;
  PortSpeed speed() const override;
  uint64_t rx_missed() override;
  std::vector<DeviceCounter> device_counters() const override {
    return function_watch_.with_path(extended_stats_.read());
  }
  bool needs_restart() const override;
  Status join(std::span<const MacAddress> groups) override;
  void suspend() override;
  Status restart() override;
  bool waits_for_memory() const override { return waits_for_memory_; }
  void resume() override;
  void close() override;

 private:
  EthernetPort(const PortOptions& options, DmaMap& dma_map, std::span<Memory* const> memories)
      : options_(options),
        args_(DeviceArgs::parse(options.device)),
        is_memif_client_(args_.driver() == "net_memif" && args_.value_of("role") != "server"),
        dma_map_(dma_map),
        memories_(memories.begin(), memories.end()) {}
  Status open_device();
  void close_device();
  Status attach();
  Status attach_virtual();
  Status attach_dma();
  Status check_interface();
  Status start();
  Status start_with(bool has_interrupts);
  int start_device();
  void describe_port();
  void learn_spread();
  QueueSetup queue_setup(uint16_t queue) const;
  void make_queues();
  bool is_there() const;
  bool is_taken_away() const;
  bool is_stuck(Nanos now);
  void look_at_interface(Nanos now);
  Status stop_and_start();
  Status reset();
  Status start_after_reset();
  Status reopen();
  Status close_and_open();
  std::unique_ptr<RxWait> wait_of(uint16_t queue) const;

  const PortOptions options_;
  DeviceArgs args_;
  const InterfaceSocket interface_socket_;  ///< for a port on a kernel interface
  XdpProgram xdp_program_;                  ///< of a port on a kernel interface, by AF_XDP
  const bool is_memif_client_;
  DmaMap& dma_map_;
  DmaMap::DeviceLock device_lock_;  ///< while the device is closed and opened
  const DriverQuirks* quirks_ = nullptr;
  static constexpr uint64_t kNoConnection = 0;  ///< inodes begin at 1
  uint64_t connection_ = kNoConnection;         ///< a memif client's: see needs_restart()
  XdpSockets sockets_;
  MemifListener memif_listener_;
  uint16_t port_id_ = 0;
  rte_device* device_ = nullptr;
  std::string kernel_driver_;     ///< of a NIC, as it was opened
  uint32_t interface_index_ = 0;  ///< of the kernel interface under the port
  bool is_attached_ = false;
  bool is_started_ = false;  ///< false: a memif client without a server
  bool is_dma_attached_ = false;
  bool has_interrupts_ = false;
  mutable NicLink link_;      ///< is_link_up() asks for it
  bool is_running_ = false;   ///< workers use the queues
  bool is_ready_ = false;     ///< restarted, and resume() is due
  bool is_reopened_ = false;  ///< since suspend()
  bool waits_for_memory_ = false;
  RisingCounter missed_;
  RisingCounter unbuffered_;
  RetryClock retry_;  ///< of a device that could not be opened or started again
  PortSetup setup_;
  DeviceEvents events_;
  DriverTimers timers_;
  ExtendedStats extended_stats_;
  FunctionWatch function_watch_;
  PortInfo info_;  ///< drivers may point to its rss_key: restore_rss()
  RssSpread spread_;
  const std::vector<Memory*> memories_;
  WatchedPools watched_pools_;
  bool was_zero_copy_ = false;  ///< the AF_XDP device that was closed last
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<TxWatch> watches_;  ///< one for each queue
  std::vector<MacAddress> groups_;
  InterfaceGroups interface_groups_;  ///< `groups_`, of a port on a kernel interface
  Nanos interface_look_at_ = seconds(0);
};

}  // namespace lyre::io::dpdk
