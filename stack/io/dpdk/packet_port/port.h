#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stack/io/backend.h"
#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/interface_groups.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/packet_port/queue.h"
#include "stack/io/dpdk/packet_port/socket.h"
#include "stack/io/dpdk/retry_clock.h"

namespace lyre::io::dpdk {

/// A port on packet sockets of our own: DeviceArgs::is_packet_port(). It sends and takes
/// super-packets: the kernel, or the NIC below it, cuts what is sent, and merges what arrives (GRO,
/// LRO). DPDK's driver of this name does neither, and has no part in it, but the packets lie in the
/// workers' pools, which are DPDK's.
class PacketPort final : public Port {
 public:
  static Result<std::unique_ptr<Port>> open(const PortOptions& options,
                                            std::span<Memory* const> memories);
  ~PacketPort() override;

  const PortInfo& info() const override { return info_; }
  PacketIo& queue(uint32_t worker) override { return *queues_[worker]; }
  bool is_link_up() const override;
  PortState state() const override { return state_; }
  void look(Nanos now) override;
  PortSpeed speed() const override { return {}; }
  uint64_t rx_missed() override;
  std::vector<DeviceCounter> device_counters() const override { return {}; }
  Status join(std::span<const MacAddress> groups) override;
  bool needs_restart() const override;
  void suspend() override;
  Status restart() override;
  void resume() override;
  void close() override;

 private:
  PacketPort(const PortOptions& options, std::span<Memory* const> memories);
  Status open_sockets();
  Result<IoCapabilities> capabilities_now() const;
  void make_queues();
  bool is_taken_away() const;
  bool is_there() const;
  std::string warning_now() const;

  const PortOptions options_;
  const DeviceArgs args_;
  const std::string interface_;
  const InterfaceSocket interface_socket_;
  const std::vector<Memory*> memories_;
  PortInfo info_;
  uint32_t interface_index_ = 0;  ///< while the sockets are open
  std::vector<PacketSocket> sockets_;
  PortState state_ = PortState::kRunning;
  bool is_running_ = false;  ///< workers use the queues
  uint64_t lost_ = 0;
  RetryClock retry_;
  Nanos looks_again_at_ = seconds(0);  ///< for a warning
  std::vector<std::unique_ptr<PacketQueue>> queues_;
  std::vector<MacAddress> groups_;
  InterfaceGroups interface_groups_;
};

}  // namespace lyre::io::dpdk
