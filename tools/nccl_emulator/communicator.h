#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/nccl_emulator/connection.h"
#include "tools/nccl_emulator/net_plugin.h"
#include "tools/nccl_emulator/operation.h"
#include "tools/nccl_emulator/profiler.h"
#include "tools/nccl_emulator/progress_thread.h"
#include "tools/nccl_emulator/service_thread.h"

namespace lyre::nccl_emulator {

using Bytes = std::vector<uint8_t>;
/// NCCL's bootstrap: gives this rank's part to all ranks and returns the parts of all, by rank.
/// Called by the thread that constructs the Communicator. Fails: throws, which ends construction.
using AllGather = std::function<std::vector<Bytes>(const Bytes& mine)>;

/// What a communicator consists of. All ranks have the same but `rank` and `plugin_path`.
struct CommunicatorConfig {
  std::string plugin_path;
  int abi = 0;  // 0: the newest that the plugin exports
  uint64_t comm_id = 0;
  int rank = 0;
  std::vector<std::string> hosts;  // the host of each rank; one entry a rank
  int channels = 2;                // rings side by side
  int slice_steps = 2;             // RingShape::slice_steps
  int connect_timeout_s = 30;
  bool device_thread = false;  // ProgressThread::Options::device_thread

  int ranks() const { return static_cast<int>(hosts.size()); }
};

/// Payload of the plugin's messages.
struct MovedBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
};

/// The wire protocol that NCCL takes for an all-reduce of `bytes`.
Protocol choose_protocol(uint64_t bytes);

/// One rank of a communicator: the plugin, and for each channel a comm to the right neighbour and
/// one from the left, made and used on the threads that NCCL uses.
/// Owner: of plugin, comms, staging memory and threads.
/// Thread: one thread constructs, calls and destroys it.
class Communicator {
 public:
  /// Loads the plugin, connects the rings, and registers their staging memory.
  /// Fails: throws Failure with the plugin's error.
  Communicator(CommunicatorConfig config, const AllGather& all_gather);
  /// Without close() this is NCCL's abort: requests may be in flight.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// For progress().submit(). The ranks make their operations in the same order.
  Operation make_operation(std::span<float> data, Protocol protocol,
                           Collective collective = Collective::kAllReduce);

  /// Ends in NCCL's order: comms, context, library. Afterwards only the destructor and crossed()
  /// may be called. Fails: throws Failure with the plugin's error; the library stays loaded.
  void close();

  ProgressThread& progress() { return *progress_; }
  const NetPlugin& plugin() const { return *plugin_; }
  const NetProperties& properties() const { return properties_; }
  /// Bytes to and from ranks of other hosts. Only while no operation runs.
  MovedBytes crossed() const;

 private:
  void open_device();
  std::vector<Bytes> listen();
  void connect(const std::vector<Bytes>& right_handles);
  bool connect_channel(size_t index, HandleBuffer* handle);
  void prepare_channel(Channel* channel);
  void close_comms();
  int left() const { return (config_.rank + config_.ranks() - 1) % config_.ranks(); }
  int right() const { return (config_.rank + 1) % config_.ranks(); }
  const std::string& host(int rank) const { return config_.hosts[static_cast<size_t>(rank)]; }
  std::string name_of(int rank) const;

  CommunicatorConfig config_;
  std::unique_ptr<NetPlugin> plugin_;
  std::unique_ptr<Profiler> profiler_;  // of the same library; may be null
  NetProperties properties_;
  bool is_open_ = false;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Channel*> channel_pointers_;
  std::vector<void*> listen_comms_;  // null: closed
  uint32_t next_flag_base_ = 0;
  std::unique_ptr<ServiceThread> service_;
  std::unique_ptr<ProgressThread> progress_;
};

}  // namespace lyre::nccl_emulator
