#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "nccl_adapter/abi/common.h"

namespace lyre::nccl_emulator {

/// What listen() writes and connect() reads. NCCL passes these bytes between ranks unchanged, and
/// repeats connect() with the same bytes at the same address: a plugin may keep state there.
using HandleBuffer = std::array<uint8_t, nccl_abi::kHandleBytesMax>;

/// From this ABI version on irecv() may be entered with kOptionalRecvCompletion in `*request`.
inline constexpr int kFirstAbiWithOptionalCompletion = 9;

/// The answer of getProperties. What a version lacks keeps its default.
struct NetProperties {
  std::string name;
  bool has_pci_path = false;
  int ptr_support = 0;  ///< nccl_abi::kPtrHost and other bits
  int speed_mbps = 0;
  float latency_us = 0;
  int comms_max = 0;
  int recvs_max = 0;
  size_t p2p_bytes_max = nccl_abi::kNetBytesMaxV8;
  int vdevice_size = 0;  ///< physical devices merged in this one (from v9)
};

/// One message. For a receive `bytes` is the size of the buffer.
struct Message {
  void* data = nullptr;
  size_t bytes = 0;
  int tag = 0;
  void* mhandle = nullptr;
  void* phandle = nullptr;  ///< of the profiler; versions before v10 do not pass it
};

/// A loaded net plugin, called through the table of one ABI version. Each function is one entry
/// point, with the arguments of v12; what a version lacks is left out of the call.
/// Owner: comms, registrations and requests are the plugin's; the caller gives them back by the
/// close functions, dereg_mr() and a test() that is done. Buffers stay the caller's, and must live
/// until their request is done. The library stays loaded when this object goes: a plugin that was
/// given up in the middle may have threads.
/// Thread: the class adds no thread and no lock. The caller keeps NCCL's rules: listen, connect,
/// accept, registration and close from one thread, isend, irecv and test from one (maybe another).
/// Fails: each call returns the plugin's own code.
class NetPlugin {
 public:
  using Result = nccl_abi::Result;

  virtual ~NetPlugin() = default;

  virtual int abi() const = 0;
  virtual const char* name() const = 0;
  /// By which NCCL's next communicator would open the library: see unload() and load_net_plugin().
  virtual const std::string& library_name() const = 0;

  /// From v11 on also makes the communicator's context and, where the plugin has setNetAttr, says
  /// that nothing is known about its traffic. `comm_id` is passed from v11 on.
  virtual Result init(uint64_t comm_id) = 0;
  virtual Result devices(int* count) = 0;
  virtual Result get_properties(int dev, NetProperties* out) = 0;

  /// `handle` has kHandleBytesMax bytes.
  virtual Result listen(int dev, void* handle, void** listen_comm) = 0;
  /// Success without a comm: to be repeated with the same handle.
  virtual Result connect(int dev, void* handle, void** send_comm) = 0;
  /// Success without a comm: to be repeated.
  virtual Result accept(void* listen_comm, void** recv_comm) = 0;

  /// `type` is nccl_abi::kPtrHost or another of these bits.
  virtual Result reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle) = 0;
  virtual Result dereg_mr(void* comm, void* mhandle) = 0;

  /// Success with a null `*request`, here and in irecv(): to be repeated.
  virtual Result isend(void* send_comm, const Message& message, void** request) = 0;
  /// One buffer. `*request` is passed as it is: see kFirstAbiWithOptionalCompletion.
  virtual Result irecv(void* recv_comm, const Message& message, void** request) = 0;
  /// Several buffers and one request, for a plugin whose recvs_max allows it. Versions before v10
  /// do not pass phandles.
  virtual Result irecv_group(void* recv_comm, std::span<const Message> messages,
                             void** request) = 0;
  /// One buffer of host memory without registration.
  virtual Result iflush(void* recv_comm, void* data, void** request) = 0;
  /// `bytes` is written when `*done` becomes 1, and may be null.
  virtual Result test(void* request, int* done, int* bytes) = 0;

  virtual Result close_send(void* send_comm) = 0;
  virtual Result close_recv(void* recv_comm) = 0;
  virtual Result close_listen(void* listen_comm) = 0;
  /// Ends the context. Success without a call before v11.
  virtual Result finalize() = 0;
  /// dlclose, as NCCL after its last communicator. No function but library_name() may be called
  /// after it. The versions of NCCL that take v11 lose that name now (it becomes empty), unless
  /// NCCL_NET_PLUGIN_REF_COUNT keeps them from unloading the plugin.
  virtual void unload() = 0;
};

/// Opens the library as NCCL does (dlopen, RTLD_NOW and RTLD_LOCAL) and takes its newest table of
/// v8 to v12, or the one of version `abi`. `path` may be a name that the loader searches. Without
/// one that is libnccl-net.so.
/// Fails: throws Failure: the library cannot be loaded, or has no such table.
std::unique_ptr<NetPlugin> load_net_plugin(const std::string& path, int abi = 0);

/// The same for a table that is linked to this program, of type nccl_abi::NetV<abi>, borrowed. It
/// logs to `logger`; unload() does nothing.
/// Fails: throws Failure: no such version.
std::unique_ptr<NetPlugin> use_net_table(int abi, const void* table, nccl_abi::Logger logger);

}  // namespace lyre::nccl_emulator
