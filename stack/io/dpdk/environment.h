#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stack/base/result.h"
#include "stack/io/backend.h"
#include "stack/io/dpdk/log.h"

/// DPDK as a NIC API. PortOptions::device is what DPDK calls a device:
/// "net_memif0,role=server,socket=/run/a.sock", "net_af_packet0,iface=veth0",
/// "net_af_xdp0,iface=veth0", "net_tap0,iface=lyre0", or a NIC: its PCI address, "0000:00:10.0", or
/// on the VMbus of Hyper-V "vmbus:UUID,mac=00:0d:3a:00:00:01", where `mac` is the MAC address of
/// its virtual function, if it has one.
namespace lyre::io::dpdk {

/// kAuto: see takes_hugepages() in eal_arguments.h.
enum class Hugepages : uint8_t { kAuto, kYes, kNo };

/// Process-wide options of DPDK.
struct EnvironmentOptions {
  Hugepages hugepages = Hugepages::kAuto;
  std::string file_prefix = "lyre";  ///< distinct for each daemon on one machine
  /// NICs for ports: PCI addresses and devices of the VMbus, with device arguments after a comma.
  /// No other one is opened.
  std::vector<std::string> nics;
  /// Set: another process has the NICs now. None is opened at the start: open_port() does it, when
  /// that one has closed them.
  std::optional<NicOwner> owner;
  uint32_t worker_count = 1;
  uint32_t memory_mib = 0;  ///< DPDK's own heap without hugepages; 0: derived from worker_count
  bool is_verbose = false;  ///< DPDK's log from level info on, else errors only
  LogSink log;              ///< of DPDK's lines; empty: standard error
};

/// Starts the one DPDK environment of this process; a second start fails.
/// Fails: one line that says what is missing. Keeps the calling thread's CPU affinity and ignores
/// SIGPIPE from then on.
Result<std::unique_ptr<Backend>> start_environment(const EnvironmentOptions& options);

}  // namespace lyre::io::dpdk
