// Preloaded into lyred: drivers report what no virtual device reports. Each line that is written
// to the FIFO "$LYRE_TEST_NIC_EVENTS.PID" names a device of DPDK ("net_af_packet0", which
// keeping_nic.cc makes), whose driver then asks for a reset.
#include <dlfcn.h>
#include <rte_ethdev.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

// Of DPDK, for drivers: their header is not installed everywhere.
struct rte_eth_dev;
extern "C" rte_eth_dev* rte_eth_dev_allocated(const char* name);
extern "C" int rte_eth_dev_callback_process(rte_eth_dev* device, rte_eth_event_type event,
                                            void* argument);

namespace {

void report(const std::string& path) {
  for (;;) {
    std::ifstream fifo(path);  // waits for a writer
    for (std::string device; std::getline(fifo, device);) {
      rte_eth_dev_callback_process(rte_eth_dev_allocated(device.c_str()), RTE_ETH_EVENT_INTR_RESET,
                                   nullptr);
    }
  }
}

bool listen_for_events() {
  const char* base = std::getenv("LYRE_TEST_NIC_EVENTS");
  if (base == nullptr) return false;
  const std::string path = std::string(base) + "." + std::to_string(getpid());
  if (mkfifo(path.c_str(), 0600) != 0) return false;
  std::thread(report, path).detach();
  return true;
}

}  // namespace

/// In front of DPDK's function: there are devices from now on.
extern "C" int rte_eth_dev_start(uint16_t port_id) {
  static const bool is_listening = listen_for_events();
  static_cast<void>(is_listening);
  static const auto next =
      reinterpret_cast<int (*)(uint16_t)>(dlsym(RTLD_NEXT, "rte_eth_dev_start"));
  return next(port_id);
}
