#pragma once

#include <string>
#include <vector>

#include "nccl_adapter/transport/verbs/library.h"
#include "nccl_adapter/transport/verbs/ports.h"

namespace lyre::nccl_adapter {

/// What is known of this host's RDMA devices at the time of the call, for people.
struct VerbsReport {
  std::vector<std::string> lines;  ///< for NCCL's log
  std::string summary;   ///< for `lyre comms`: ports that cannot be used, and why; empty: none
  std::string why_none;  ///< why no data can go over RDMA; empty: it can
  std::vector<VerbsPort> usable;
};

/// `api` may be nullptr: `why_no_api` says why then. Opens each device for the time of the call.
VerbsReport report_verbs(const VerbsApi* api, const std::string& why_no_api,
                         const Settings& settings);

}  // namespace lyre::nccl_adapter
