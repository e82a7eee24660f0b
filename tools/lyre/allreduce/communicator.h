#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/connection.h"
#include "tools/lyre/allreduce/job.h"
#include "tools/lyre/allreduce/net_plugin.h"
#include "tools/lyre/allreduce/proxy.h"

namespace lyre::allreduce {

using Bytes = std::vector<uint8_t>;
/// Gives this rank's part to all and returns everybody's, by rank.
using AllGather = std::function<std::vector<Bytes>(const Bytes& mine)>;

/// One rank's ring: a comm to the right neighbour and one from the left for each channel, made and
/// used on the threads that NCCL uses. Construction and destruction are the init thread's.
class Communicator {
 public:
  /// Fails: throws Failure with the plugin's error.
  Communicator(const Job& job, const AllGather& all_gather);
  /// After a failure this is NCCL's abort: requests may be in flight.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Ends in NCCL's order. Fails: throws Failure with the plugin's error.
  void close();

  ProgressThread& progress() { return *progress_; }
  NetPlugin& plugin() { return *plugin_; }
  const NetProperties& properties() const { return properties_; }
  /// Bytes to and from ranks of other hosts. Only while no operation runs.
  tools::TcpPayloadBytes crossed() const;

 private:
  void open_device();
  std::vector<Bytes> listen();
  void connect(std::vector<Bytes> right_handles);
  void close_comms();
  int left() const { return (job_.rank + job_.ranks - 1) % job_.ranks; }
  int right() const { return (job_.rank + 1) % job_.ranks; }
  std::string name_of(int rank) const;

  const Job& job_;
  std::unique_ptr<NetPlugin> plugin_;
  std::unique_ptr<Profiler> profiler_;  // of the same library; may be null
  NetProperties properties_;
  bool is_open_ = false;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Channel*> channel_pointers_;
  std::vector<void*> listen_comms_;
  std::unique_ptr<ServiceThread> service_;
  std::unique_ptr<ProgressThread> progress_;
};

}  // namespace lyre::allreduce
