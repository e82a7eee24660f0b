#include "nccl_adapter/transport/verbs/report.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/transport/verbs/ports.h"

namespace lyre::nccl_adapter {
namespace {

struct Reason {
  std::string ports;  ///< "mlx5_0, mlx5_1"
  std::string why;
};

// A host may have eight devices that have one reason in common.
std::string by_reason(const std::vector<VerbsPort>& ports) {
  std::vector<Reason> reasons;
  for (const VerbsPort& port : ports) {
    if (port.why_not.empty()) continue;
    const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const Reason& reason) {
      return reason.why == port.why_not;
    });
    if (known == reasons.end()) {
      reasons.push_back({port.name(), port.why_not});
    } else {
      known->ports += ", " + port.name();
    }
  }
  std::string text;
  for (const Reason& reason : reasons) {
    text += (text.empty() ? "" : "; ") + reason.ports + ": " + reason.why;
  }
  return text;
}

VerbsReport nothing(std::string why) { return {.lines = {why}, .summary = {}, .why_none = why}; }

}  // namespace

VerbsReport report_verbs(const VerbsApi* api, const std::string& why_no_api, bool takes_emulated) {
  if (api == nullptr) return nothing("RDMA devices are not looked for: " + why_no_api);
  const std::vector<VerbsPort> ports = find_verbs_ports(*api, takes_emulated);
  if (ports.empty()) return nothing("this host has no RDMA device");
  VerbsReport report;
  for (const VerbsPort& port : ports) {
    report.lines.push_back("RDMA device " + port.describe());
  }
  report.summary = by_reason(ports);
  const bool is_any_usable = std::any_of(
      ports.begin(), ports.end(), [](const VerbsPort& port) { return port.why_not.empty(); });
  if (!is_any_usable) report.why_none = report.summary;
  return report;
}

}  // namespace lyre::nccl_adapter
