#include "tests/sim/adapter/world_rdma.h"

namespace lyre::adapter_sim {
namespace {

// To meet a queue pair that writes: 0.1 s.
constexpr int kTriesMax = 10'000;

}  // namespace

WorldRdma::WorldRdma(const Plan& plan, Events& events)
    : RdmaNetwork(RdmaSettings{.is_one_network = plan.is_rdma_one_network}, events,
                  plan.seed * 2 + 3),
      plan_(plan),
      events_(events) {
  for (size_t host = 0; host < plan.rdma_devices.size(); ++host) {
    for (size_t i = 0; i < plan.rdma_devices[host]; ++i) add_device(host);
  }
  if (!plan.rdma_devices.empty()) set_rdma(this);
}

void WorldRdma::break_writing(int tries) {
  if (RdmaNetwork::break_writing() || tries == 0) return;
  events_.after(10 * kUs, [this, tries] { break_writing(tries - 1); });
}

void WorldRdma::begin(const Fault& fault) {
  const int64_t end_ns = events_.now_ns() + fault.lasts_ns;
  if (fault.kind == Fault::Kind::kQueuePairBreaks) {
    return plan_.breaks_writes ? break_writing(kTriesMax) : break_queue_pair();
  }
  if (fault.kind == Fault::Kind::kRdmaCut) return cut(fault.host, fault.peer, end_ns);
  remove_devices(fault.host, fault.kind == Fault::Kind::kDevicesVanish);
  events_.at(end_ns, [this, host = fault.host] { return_devices(host); });
}

// Each link's device has one RDMA port at least, and a queue pair has two ends.
std::string WorldRdma::missing() const {
  const size_t ends = connected();
  if (ends >= 2 * plan_.links.size()) return {};
  return "queue pairs are missing: there are " + std::to_string(ends) + " ends for " +
         std::to_string(plan_.links.size()) + " links";
}

}  // namespace lyre::adapter_sim
