#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/buckets.h"
#include "tools/lyre/daemon_counters.h"

namespace lyre::allreduce {

/// What the ranks of a job do.
inline constexpr const char* kAllReduce = "allreduce";
inline constexpr const char* kSendRecv = "sendrecv";

/// The network of a job.
inline constexpr const char* kTransportPlugin = "plugin";
inline constexpr const char* kTransportKernelOne = "kernel, 1 socket";
inline constexpr const char* kTransportKernelStriped = "kernel, 2x8 sockets";

/// The configuration of a rank process. The hub fills the first part, the launcher of the rank's
/// machine the second.
struct Job {
  std::string transport;
  uint64_t seed = 0;
  uint64_t comm_id = 0;
  uint32_t iterations = 1;
  uint32_t rest_ms = 0;  // before each timed all-reduce
  int ranks = 2;
  int rank = 0;
  int channels = 2;
  int slice_steps = 2;
  int connect_timeout_s = 30;
  int abi = 0;  // 0: the newest
  std::string collective;
  std::string protocol;
  bool device_thread = false;
  bool verbose = false;
  std::vector<std::string> hosts;  // by rank
  std::string host;                // of this rank, by its name on its machine
  std::vector<Bucket> buckets;

  std::string plugin_path;
  std::string daemon_socket;  // of the rank's host; empty: no daemon
  bool needs_daemon = false;  // whether the plugin needs it
  std::string netns;          // empty: the launcher's
  std::map<std::string, std::string> environment;
};

/// The report of a rank, or of its launcher, about a failure.
struct RankError {
  int exit_code = 0;  // of the command
  std::string line;
};

/// The report of a rank about a finished job.
struct RankResult {
  std::string plugin_name;
  std::string device_name;
  int abi = 0;
  int speed_mbps = 0;
  bool has_daemon = false;
  bool may_use_rdma = false;                      // what the plugin moves is not all TCP's
  std::vector<std::vector<uint64_t>> elapsed_ns;  // [iteration][bucket]
  uint64_t processor_ns = 0;                      // of the rank, during its timed all-reduces
  uint64_t elements_verified = 0;
  tools::TcpPayloadBytes crossed;  // the plugin's bytes to and from other hosts
  tools::TcpPayloadBytes daemon_before;
  tools::TcpPayloadBytes daemon_after;
};

}  // namespace lyre::allreduce
