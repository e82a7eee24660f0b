#include "stack/io/dpdk/environment.h"

#include <rte_errno.h>
#include <rte_lcore.h>

#include <cerrno>
#include <span>
#include <string>

#include "stack/io/dpdk/dma_map.h"
#include "stack/io/dpdk/eal.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/packet_port/port.h"
#include "stack/io/dpdk/port.h"
#include "stack/io/dpdk/port_search.h"

namespace lyre::io::dpdk {
namespace {

class EalEnvironment final : public Backend {
 public:
  explicit EalEnvironment(const EalFacts& facts) : facts_(facts) {
    dma_map_.set_physical_addresses(facts.uses_physical_addresses);
  }

  bool has_hugepages() const override { return facts_.has_hugepages; }
  bool uses_physical_addresses() const override { return facts_.uses_physical_addresses; }

  uint32_t queue_pairs_max(const std::string& device) const override {
    return dpdk::queue_pairs_max(DeviceArgs::parse(device));
  }

  Result<std::unique_ptr<PacketMemory>> make_memory(uint32_t worker,
                                                    const MemoryOptions& options) override {
    MemoryContext context{.is_physical = facts_.uses_physical_addresses, .dma_map = &dma_map_};
    if (context.is_physical) {
      context.pages = PageKind::kHuge;
    } else {
      context.pages = facts_.has_hugepages ? PageKind::kAny : PageKind::kOrdinary;
    }
    auto memory = Memory::make(context, worker, options);
    if (!memory) return memory.error();
    return std::unique_ptr<PacketMemory>(std::move(*memory));
  }

  Result<std::unique_ptr<Port>> open_port(const PortOptions& options,
                                          std::span<PacketMemory* const> memories) override {
    std::vector<Memory*> own;
    for (PacketMemory* memory : memories) own.push_back(static_cast<Memory*>(memory));
    if (DeviceArgs::parse(options.device).is_packet_port()) return PacketPort::open(options, own);
    return EthernetPort::open(options, dma_map_, own);
  }

  void set_region_window(std::span<const uint8_t> window) override { dma_map_.set_window(window); }
  Status map_for_ports(const RegionMemory& memory) override {
    return dma_map_.add(memory.base, memory.bytes, memory.page_bytes);
  }
  void unmap_for_ports(const RegionMemory& memory) override {
    dma_map_.remove(memory.base, memory.bytes);
  }

  Status register_worker_thread() override {
    if (rte_lcore_id() != LCORE_ID_ANY || rte_thread_register() == 0) return Ok{};
    return Error{rte_errno,
                 std::string("DPDK cannot register another thread: ") + rte_strerror(rte_errno)};
  }
  void unregister_worker_thread() override { rte_thread_unregister(); }

 private:
  const EalFacts facts_;
  DmaMap dma_map_;
};

}  // namespace

Result<std::unique_ptr<Backend>> start_environment(const EnvironmentOptions& options) {
  auto facts = start_eal(options);
  if (!facts) return facts.error();
  return std::unique_ptr<Backend>(new EalEnvironment(*facts));
}

}  // namespace lyre::io::dpdk
