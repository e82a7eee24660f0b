#include "daemon/backend.h"

#include "machine/nic_guard.h"
#include "stack/io/dpdk/environment.h"

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

}  // namespace

Result<std::unique_ptr<io::Backend>> start_backend(const Config& config) {
  io::dpdk::EnvironmentOptions options;
  options.hugepages = hugepages_of(config.hugepages);
  options.file_prefix = config.name;
  options.worker_count = static_cast<uint32_t>(config.cores.size());
  options.memory_mib = config.memory_mib;
  options.is_debug = config.log_level == LogLevel::kDebug;
  for (const PortConfig& port : config.ports) {
    if (!machine::pci_address_of(port.device).empty()) options.pci_devices.push_back(port.device);
  }
  return io::dpdk::start_environment(options);
}

}  // namespace lyre
