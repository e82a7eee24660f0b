#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/job.h"

namespace lyre::allreduce {

/// Of a job.
inline constexpr int kRanksMax = 8;

/// A host of this machine's launcher, to which ranks are assigned.
struct Host {
  std::string name;
  std::string daemon_socket;
  std::string kernel_address = "127.0.0.1";
  std::string kernel_netns;
};

/// The command line of `lyre allreduce`.
struct Options {
  std::string socket_path;  // that of this machine's daemon; empty: $LYRE_SOCKET, or the default
  int ranks = 2;
  int local_ranks = 0;  // 0: all of them
  bool own_sessions = false;
  std::vector<std::string> hosts;
  std::vector<std::string> kernel_addresses;
  std::vector<std::string> kernel_netns;
  std::string placement = "spread";
  std::string plugin = "libnccl-net-lyre.so";
  std::string kernel_plugin;
  bool no_kernel = false;
  int abi = 0;
  std::vector<std::string> models{"resnet50", "llama7b-layer"};
  std::vector<uint64_t> bytes;
  uint32_t iterations = 3;
  uint32_t rest_ms = 0;
  uint64_t seed = 1;
  bool quick = false;
  int channels = 2;
  int slice_steps = 2;
  std::string collective = kAllReduce;
  std::string protocol = "auto";
  bool device_thread = false;
  int timeout_s = 600;
  int stall_timeout_s = 60;
  int connect_timeout_s = 30;
  std::string listen;
  std::string join;
  bool json = false;
  bool verbose = false;
  int rank_process_fd = -1;
};

/// The command line's meaning on this machine.
struct Machine {
  std::vector<Host> hosts;
  int local_ranks = 0;
  std::string plugin_path;
  std::string kernel_plugin_path;
};

/// Fails: throws UsageError with the wrong option and what is allowed.
Machine make_machine(const Options& options);

/// Asks the daemon of each host, where the plugin needs one.
/// Fails: throws tools::Failure: it does not answer.
void check_daemons(const Machine& machine);

/// Returns the data of one iteration. Fails: throws UsageError or Failure.
std::vector<Bucket> make_buckets(const Options& options);

/// Returns the part of the job that is the same for every rank.
Job make_job(const Options& options, std::vector<Bucket> buckets);

/// Fills in the part that the rank's machine decides.
/// Fails: throws Failure when the job names a host that is not here.
void complete_job(const Machine& machine, Job* job);

}  // namespace lyre::allreduce
