#include "daemon/backend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>

#include "machine/nic_guard.h"
#include "machine/vmbus.h"
#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/nic_check.h"

namespace lyre {
namespace {

io::dpdk::Hugepages hugepages_of(HugepagesMode mode) {
  switch (mode) {
    case HugepagesMode::kAuto:
      return io::dpdk::Hugepages::kAuto;
    case HugepagesMode::kYes:
      return io::dpdk::Hugepages::kYes;
    case HugepagesMode::kNo:
      return io::dpdk::Hugepages::kNo;
  }
  return io::dpdk::Hugepages::kAuto;
}

void log_dpdk(io::dpdk::LogPriority priority, std::string_view line) {
  switch (priority) {
    case io::dpdk::LogPriority::kError:
      return spdlog::error("DPDK: {}", line);
    case io::dpdk::LogPriority::kWarning:
      return spdlog::warn("DPDK: {}", line);
    case io::dpdk::LogPriority::kInfo:
    case io::dpdk::LogPriority::kDebug:
      return spdlog::debug("DPDK: {}", line);
  }
}

}  // namespace

Result<std::unique_ptr<io::Backend>> start_backend(const Config& config,
                                                   const std::optional<io::NicOwner>& owner) {
  io::dpdk::EnvironmentOptions options;
  options.owner = owner;
  options.hugepages = hugepages_of(config.hugepages);
  options.file_prefix = config.name;
  options.worker_count = static_cast<uint32_t>(config.cores.size());
  options.memory_mib = config.memory_mib;
  options.is_verbose = config.log_level == LogLevel::kDebug;
  options.log = log_dpdk;
  for (const PortConfig& port : config.ports) {
    const bool is_nic =
        !machine::pci_address_of(port.device).empty() || !machine::vmbus_id_of(port.device).empty();
    if (is_nic) options.nics.push_back(port.device);
  }
  return io::dpdk::start_environment(options);
}

std::vector<Error> check_virtual_devices(const Config& config) {
  std::vector<Error> errors;
  for (const PortConfig& port : config.ports) {
    if (!port.device.starts_with("net_")) continue;
    const Status known = io::dpdk::check_virtual_device(
        port.device, {.mtu_bytes = port.mtu_bytes,
                      .queue_count = static_cast<uint32_t>(config.cores.size()),
                      .is_trusted = port.is_trusted,
                      .has_super_packets = port.has_super_packets});
    if (known.ok()) continue;
    errors.push_back({known.error().code, complaint(config.file, port.lines.of("device"),
                                                    "port.device", known.error().text)});
  }
  return errors;
}

uint32_t virtual_workers_max(const Config& config) {
  uint32_t most = UINT32_MAX;
  for (const PortConfig& port : config.ports) {
    const auto args = io::dpdk::DeviceArgs::parse(port.device);
    const uint32_t pairs = args.is_nic() ? 0 : io::dpdk::virtual_queue_pairs_max(args);
    if (pairs > 0) most = std::min(most, pairs);
  }
  return most;
}

std::vector<std::string> check_nics(const Config& config) {
  std::vector<std::string> lines;
  for (const PortConfig& port : config.ports) {
    const Status fit = io::dpdk::check_nic(port.device, io::dpdk::dpdk_version());
    if (fit.ok()) continue;
    lines.push_back(
        complaint(config.file, port.lines.of("device"), "port.device", fit.error().text));
  }
  return lines;
}

std::vector<std::string> check_nics(const std::vector<std::string>& devices) {
  std::vector<std::string> lines;
  for (const std::string& device : devices) {
    const Status fit = io::dpdk::check_nic(device, io::dpdk::dpdk_version());
    if (!fit.ok()) lines.push_back(fit.error().text);
  }
  return lines;
}

std::string host_path_text(const Config& config) {
  std::string out;
  for (const PortConfig& port : config.ports) {
    const std::string why = io::dpdk::why_on_host_path(port.device, io::dpdk::dpdk_version());
    if (why.empty()) continue;
    out += "port " + port.name +
           " sends and receives through the host, which is slower: its virtual function " + why +
           "\n";
  }
  return out;
}

std::string backend_text() { return "DPDK " + io::dpdk::dpdk_version().text(); }

}  // namespace lyre
