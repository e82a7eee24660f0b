// Preloaded into lyred: a device needs $LYRE_TEST_SLOW_NIC seconds to start, as NICs do whose
// firmware is reset.
#include <dlfcn.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

/// In front of DPDK's function.
extern "C" int rte_eth_dev_start(uint16_t port_id) {
  static const auto next =
      reinterpret_cast<int (*)(uint16_t)>(dlsym(RTLD_NEXT, "rte_eth_dev_start"));
  const char* seconds = std::getenv("LYRE_TEST_SLOW_NIC");
  if (seconds != nullptr) sleep(static_cast<unsigned>(std::atoi(seconds)));
  return next(port_id);
}
