#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nccl_adapter/abi/common.h"

namespace lyre::allreduce {

struct NetProperties {
  std::string name;
  int speed_mbps = 0;
  int ptr_support = 0;
  int comms_max = 0;
  int recvs_max = 0;
};

/// A loaded plugin, called through one ABI version; arguments as in v12.
/// Thread: each function from the thread that NCCL would use (see proxy.h); this object adds none.
/// Fails: every call returns the plugin's own code.
class NetPlugin {
 public:
  virtual ~NetPlugin() = default;

  virtual int abi() const = 0;
  virtual const char* name() const = 0;
  virtual nccl_abi::Result init(uint64_t comm_id) = 0;
  virtual nccl_abi::Result devices(int* count) = 0;
  virtual nccl_abi::Result get_properties(int dev, NetProperties* out) = 0;
  virtual nccl_abi::Result listen(int dev, void* handle, void** listen_comm) = 0;
  virtual nccl_abi::Result connect(int dev, void* handle, void** send_comm) = 0;
  virtual nccl_abi::Result accept(void* listen_comm, void** recv_comm) = 0;
  virtual nccl_abi::Result reg_mr(void* comm, void* data, size_t bytes, void** mhandle) = 0;
  virtual nccl_abi::Result dereg_mr(void* comm, void* mhandle) = 0;
  /// `phandle`, here and below: for versions that know it.
  virtual nccl_abi::Result isend(void* send_comm, void* data, size_t bytes, int tag, void* mhandle,
                                 void* phandle, void** request) = 0;
  /// One buffer. `hint`: enter with NCCL_NET_OPTIONAL_RECV_COMPLETION where the version has it.
  virtual nccl_abi::Result irecv(void* recv_comm, void* data, size_t bytes, int tag, void* mhandle,
                                 void* phandle, bool hint, void** request) = 0;
  virtual nccl_abi::Result test(void* request, int* done, int* bytes) = 0;
  virtual nccl_abi::Result close_send(void* send_comm) = 0;
  virtual nccl_abi::Result close_recv(void* recv_comm) = 0;
  virtual nccl_abi::Result close_listen(void* listen_comm) = 0;
  virtual nccl_abi::Result finalize() = 0;
};

/// Opens `path` as NCCL does and takes its newest table, or the one of `abi` (8 to 12; 0: newest).
/// Fails: throws Failure: library not loadable, or no table of a wanted version.
std::unique_ptr<NetPlugin> load_plugin(const std::string& path, int abi);

/// Takes what plugins log. Thread: any.
nccl_abi::Logger plugin_logger();

/// What the plugins of this process logged last at WARN, or an empty string. Thread: any.
std::string last_warning();

/// Copies everything that plugins log to stderr.
void print_plugin_log(bool enabled);

/// Throws Failure "<what>: <result name>[: <last warning>]" unless `result` is success.
void require_success(nccl_abi::Result result, const std::string& what);

}  // namespace lyre::allreduce
