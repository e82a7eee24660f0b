#pragma once

#include <nlohmann/json.hpp>

#include "tools/lyre/allreduce/job.h"

/// Jobs and results as payloads of frames.
namespace lyre::tools {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TcpPayloadBytes, sent, received, started_unix_ns, is_domain)
}  // namespace lyre::tools

namespace lyre::allreduce {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankError, exit_code, line)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Bucket, model, index, tensors, elements)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Job, transport, seed, comm_id, iterations, rest_ms, ranks, rank,
                                   channels, slice_steps, connect_timeout_s, abi, collective,
                                   protocol, device_thread, verbose, hosts, host, buckets,
                                   plugin_path, daemon_socket, needs_daemon, netns, environment)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResult, plugin_name, device_name, abi, speed_mbps,
                                   has_daemon, may_use_rdma, elapsed_ns, processor_ns,
                                   elements_verified, crossed, daemon_before, daemon_after)

}  // namespace lyre::allreduce
