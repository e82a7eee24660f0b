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

VerbsReport nothing(std::string why) {
  return {.lines = {why}, .summary = {}, .why_none = why, .usable = {}};
}

}  // namespace

VerbsReport report_verbs(const VerbsApi* api, const std::string& why_no_api,
                         const Settings& settings) {
  if (api == nullptr) return nothing("RDMA devices are not looked for: " + why_no_api);
  const std::vector<VerbsPort> ports = find_verbs_ports(*api, settings);
  if (ports.empty()) return nothing(kNoDevice);
  VerbsReport report;
  for (const VerbsPort& port : ports) {
    report.lines.push_back("RDMA device " + port.describe());
    if (port.why_not.empty()) report.usable.push_back(port);
  }
  report.summary = by_reason(ports);
  if (report.usable.empty()) report.why_none = report.summary;
  return report;
}

}  // namespace lyre::nccl_adapter
