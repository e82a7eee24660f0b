#include "tests/sim/adapter/plan_rdma.h"

namespace lyre::adapter_sim {
namespace {

// Most worlds are of one mode, half of them of one network. From numbers of its own: what else a
// seed means stays.
void draw_kind(Plan* plan) {
  Draw draw(plan->seed * 31 + 5);
  const bool are_mixed = draw.percent(30);
  const int mode = draw.percent(80) ? 2 : 1;
  for (RankPlan& rank : plan->ranks) {
    rank.verbs_mode = are_mixed ? static_cast<int>(draw.between(1, 2)) : mode;
  }
  plan->is_rdma_one_network = draw.percent(50);
}

void add_rdma(Draw& draw, Plan* plan, bool is_everywhere) {
  draw_kind(plan);
  for (size_t host = 0; host < plan->network.hosts; ++host) {
    plan->rdma_devices.push_back(is_everywhere || draw.percent(80) ? draw.index(2) + 1 : 0);
  }
}

/// How long a comm takes at most to find out that a device is there again: the longest pause
/// between offers, and what one takes.
constexpr int64_t kOfferTimeNs = 90 * kSecond;

Fault draw_rdma_fault(Draw& draw, const Plan& plan) {
  Fault fault;
  fault.kind =
      draw.one_of({Fault::Kind::kQueuePairBreaks, Fault::Kind::kQueuePairBreaks,
                   Fault::Kind::kDevicesVanish, Fault::Kind::kDevicesFall, Fault::Kind::kRdmaCut});
  fault.host = draw.index(plan.network.hosts);
  fault.peer = (fault.host + 1 + draw.index(plan.network.hosts - 1)) % plan.network.hosts;
  if (fault.kind != Fault::Kind::kQueuePairBreaks)
    fault.lasts_ns = draw.of_any_size(kMs, 60 * kSecond);
  return fault;
}

void add_devices_everywhere(Draw& draw, Plan* plan) {
  add_rdma(draw, plan, true);
  plan->checks_queue_pairs = true;
  plan->stays_ns = 10 * kSecond;
  if (plan->network.is_one_network) return;
  for (LinkPlan& link : plan->links) link.to_device = link.from_device;
}

}  // namespace

void make_queue_pairs(Draw& draw, Plan* plan) {
  add_devices_everywhere(draw, plan);
  plan->faults.push_back({.kind = Fault::Kind::kRankPauses,
                          .at_ns = kSecond + draw.of_any_size(kMs, kSecond),
                          .lasts_ns = draw.of_any_size(10 * kMs, kSecond),
                          .host = draw.index(plan->ranks.size())});
}

void make_fail_over(Draw& draw, Plan* plan) {
  add_rdma(draw, plan, false);
  for (int64_t i = draw.between(1, 20); i > 0; --i) {
    Fault fault = draw_rdma_fault(draw, *plan);
    fault.at_ns = draw.of_any_size(10 * kUs, 20 * kSecond);
    plan->faults.push_back(fault);
  }
}

void make_late_writes(Draw& draw, Plan* plan) {
  add_rdma(draw, plan, true);
  plan->breaks_writes = true;
  plan->is_rdma_one_network = true;  // then the next pair of ports works, too
  for (RankPlan& rank : plan->ranks) rank.verbs_mode = 2;
  // A queue pair is offered again after 0.1 s and more.
  int64_t end_ns = 500 * kMs;
  for (int64_t i = draw.between(2, 6); i > 0; --i) {
    plan->faults.push_back({.kind = Fault::Kind::kQueuePairBreaks, .at_ns = end_ns});
    end_ns += draw.between(150, 800) * kMs;
  }
  for (LinkPlan& link : plan->links) {
    link.is_registered = true;
    link.messages.clear();
    for (int64_t at_ns = 0; at_ns < end_ns; at_ns += draw.of_any_size(2 * kMs, 200 * kMs)) {
      MessagePlan message;
      message.bytes = static_cast<uint32_t>(draw.of_any_size(16'384, 200'000));
      message.posted_bytes = message.bytes;
      message.send_at_ns = at_ns;
      link.messages.push_back(message);
    }
  }
}

void make_rdma_return(Draw& draw, Plan* plan) {
  add_devices_everywhere(draw, plan);
  Fault fault = draw_rdma_fault(draw, *plan);
  // A device that falls silent is noticed when something is sent.
  while (fault.kind == Fault::Kind::kDevicesFall) fault = draw_rdma_fault(draw, *plan);
  fault.at_ns = kSecond + draw.of_any_size(kMs, kSecond);
  plan->faults.push_back(fault);
  plan->stays_ns = fault.at_ns + fault.lasts_ns + kOfferTimeNs;
}

}  // namespace lyre::adapter_sim
