#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/device_events.h"
#include "stack/io/dpdk/dma_map.h"
#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/port_setup.h"
#include "stack/io/dpdk/queue.h"
#include "stack/io/dpdk/rx_wait.h"

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
  bool is_link_up() const override {
    return events_.state() == PortState::kRunning && queues_[0]->is_link_up();
  }
  PortState state() const override { return events_.state(); }
  void run_timers() override;
  PortSpeed speed() const override;
  uint64_t rx_missed() const override;
  bool needs_restart() const override;
  Status join(std::span<const MacAddress> groups) override;
  Status restart() override;

 private:
  EthernetPort(const PortOptions& options, DmaMap& dma_map)
      : options_(options),
        args_(DeviceArgs::parse(options.device)),
        is_memif_client_(args_.driver() == "net_memif" && args_.value_of("role") != "server"),
        dma_map_(dma_map) {}
  Status attach(uint32_t queue_count);
  Status attach_virtual(uint32_t queue_count);
  Status attach_dma();
  Status check_interface();
  Status start(std::span<Memory* const> memories);
  void describe_port(const PortSetup& setup, size_t queue_count);
  void make_queues(const PortSetup& setup, std::span<Memory* const> memories);
  int start_device();
  void set_running(bool is_running);
  bool wants_interrupts() const;
  int reset_device();
  Status leave_device();
  Status start_with(bool has_interrupts, std::span<Memory* const> memories, PortSetup& setup);
  std::unique_ptr<RxWait> wait_of(uint16_t queue, size_t queue_count) const;
  std::vector<int> new_sockets() const;
  int socket_domain() const;

  const PortOptions options_;
  DeviceArgs args_;
  const bool is_memif_client_;
  DmaMap& dma_map_;
  const DriverQuirks* quirks_ = nullptr;
  static constexpr uint64_t kNoConnection = 0;  ///< inodes begin at 1
  uint64_t connection_ = kNoConnection;         ///< a memif client's: see needs_restart()
  std::vector<int> sockets_before_;
  std::vector<int> sockets_;
  uint16_t port_id_ = 0;
  rte_device* device_ = nullptr;
  bool is_attached_ = false;
  bool is_started_ = false;  ///< false: a memif client without a server
  bool is_dma_attached_ = false;
  bool is_vfio_ = false;
  bool has_interrupts_ = false;
  bool is_running_ = true;  ///< workers use the queues
  DeviceEvents events_;
  PortInfo info_;
  std::vector<Memory*> memories_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<MacAddress> groups_;
};

}  // namespace lyre::io::dpdk
