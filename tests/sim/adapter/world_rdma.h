#pragma once

#include <string>

#include "tests/sim/adapter/plan.h"
#include "tests/sim/adapter/rdma.h"

namespace lyre::adapter_sim {

/// The RDMA devices of a world, and what its plan does to them. Where the plan has none, its hosts
/// have no libibverbs.
class WorldRdma final : public RdmaNetwork {
 public:
  WorldRdma(const Plan& plan, Events& events);
  ~WorldRdma() { set_rdma(nullptr); }

  void begin(const Fault& fault);

  void kill_host(size_t host) { remove_devices(host, false); }
  /// Empty, or that links of the plan have no queue pair.
  std::string missing() const;

 private:
  void break_writing(int tries);

  const Plan& plan_;
  Events& events_;
};

}  // namespace lyre::adapter_sim
