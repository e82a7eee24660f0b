#pragma once

#include <string>
#include <vector>

#include "nccl_adapter/transport/verbs/library.h"

namespace lyre::nccl_adapter {

/// What a process knows of this host's RDMA devices, for people.
struct VerbsReport {
  std::vector<std::string> lines;  ///< for NCCL's log
  std::string summary;   ///< for `lyre comms`: ports that cannot be used, and why; empty: none
  std::string why_none;  ///< why no data can go over RDMA; empty: it can
};

/// `api` may be nullptr: `why_no_api` says why then. Opens each device for the time of the call.
/// `takes_emulated`: as in find_verbs_ports().
VerbsReport report_verbs(const VerbsApi* api, const std::string& why_no_api, bool takes_emulated);

}  // namespace lyre::nccl_adapter
