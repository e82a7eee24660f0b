#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"

namespace lyre::test {

using nccl_abi::Result;

struct PluginProperties {
  std::string name;
  bool has_pci_path = false;
  int ptr_support = 0;
  int speed_mbps = 0;
  float latency_us = 0;
  int recvs_max = 0;
  int comms_max = 0;
  size_t p2p_bytes_max = 0;
  int device_count = 0;  ///< of the virtual device; 0 where the version has none
};

/// The plugin, loaded by dlopen and called through one ABI version as NCCL calls it: entry points
/// only, arguments as in v12.
class Plugin {
 public:
  /// Fails: throws std::runtime_error.
  static std::unique_ptr<Plugin> load(int abi);
  virtual ~Plugin() = default;

  virtual Result init() = 0;
  virtual Result devices(int* count) = 0;
  virtual Result properties(int dev, PluginProperties* out) = 0;
  virtual Result listen(int dev, void* handle, void** listen_comm) = 0;
  virtual Result connect(int dev, void* handle, void** send_comm) = 0;
  virtual Result accept(void* listen_comm, void** recv_comm) = 0;
  virtual Result reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle) = 0;
  virtual Result dereg_mr(void* comm, void* mhandle) = 0;
  virtual Result isend(void* comm, const void* data, size_t bytes, void* mhandle,
                       void** request) = 0;
  Result isend(void* comm, const void* data, size_t bytes, void** request) {
    return isend(comm, data, bytes, nullptr, request);
  }
  /// `*request` goes in as it is: the caller may leave the 0x1 hint there.
  virtual Result irecv(void* comm, void* data, size_t bytes, void** request) = 0;
  virtual Result iflush(void* comm, void* data, void** request) = 0;
  virtual Result test(void* request, int* done, int* sizes) = 0;
  virtual Result close_send(void* comm) = 0;
  virtual Result close_recv(void* comm) = 0;
  virtual Result close_listen(void* comm) = 0;
  /// Nothing to call before v11.
  virtual Result finalize() = 0;
  /// dlclose.
  virtual void unload() = 0;
};

/// Lines the plugin logged in this process, WARN only unless asked for all.
std::vector<std::string> logged_lines(bool with_info = false);
/// Whether one of them contains `text`.
bool has_logged(const std::string& text);
size_t count_logged(const std::string& text);
/// All of them, for a failed EXPECT.
std::string logged_text();

}  // namespace lyre::test
