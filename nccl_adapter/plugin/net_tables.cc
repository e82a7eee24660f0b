#include <atomic>
#include <cstdlib>

#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/abi/net.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/plugin/plugin.h"
#include "nccl_adapter/plugin/properties.h"

/// The exported tables: each version's signatures, brought to the calls of plugin.h.
namespace lyre::nccl_adapter {
namespace {

using namespace lyre::nccl_abi;

struct Plugin {
  static constexpr const char* kName = kPluginName;
  static constexpr auto* devices = nccl_adapter::devices;
  static constexpr auto* accept = nccl_adapter::accept;
  static constexpr auto* reg_mr = nccl_adapter::reg_mr;
  static constexpr auto* dereg_mr = nccl_adapter::dereg_mr;
  static constexpr auto* iflush = nccl_adapter::iflush;
  static constexpr auto* test = nccl_adapter::test;
  static constexpr auto* close_comm = nccl_adapter::close_comm;
  static constexpr auto* close_listen = nccl_adapter::close_listen;
  static constexpr auto* finalize = nccl_adapter::finalize;
  static constexpr auto* set_net_attr = nccl_adapter::set_net_attr;

  static Result init(Logger logger) { return init_process(logger, nullptr); }
  static Result init(Logger logger, ProfilerCallback profiler) {
    return init_process(logger, profiler);
  }
  static Result init(void** context, uint64_t communicator, CommConfig*, Logger logger,
                     ProfilerCallback profiler) {
    return init_context(context, communicator, logger, profiler);
  }

  template <typename AbiProperties>
  static Result get_properties(int dev, AbiProperties* out) {
    Properties properties;
    if (!known_properties(dev, &properties)) return Result::kInvalidArgument;
    fill_properties(dev, properties, out);
    return Result::kSuccess;
  }

  static Result listen(int dev, void* handle, void** listen_comm) {
    return nccl_adapter::listen(process_context_for_new_comm(), dev, handle, listen_comm);
  }
  static Result listen(void* context, int dev, void* handle, void** listen_comm) {
    return nccl_adapter::listen(context, dev, handle, listen_comm);
  }

  static Result connect(int dev, void* handle, void** send_comm, NetDeviceHandle**) {
    return nccl_adapter::connect(process_context_to_connect(handle), dev, handle, send_comm);
  }
  static Result connect(int dev, CommConfig*, void* handle, void** send_comm, NetDeviceHandle**) {
    return nccl_adapter::connect(process_context_to_connect(handle), dev, handle, send_comm);
  }
  static Result connect(void* context, int dev, void* handle, void** send_comm, NetDeviceHandle**) {
    return nccl_adapter::connect(context, dev, handle, send_comm);
  }

  static Result isend(void* comm, void* data, int bytes, int, void* mhandle, void** request) {
    *request = nullptr;
    if (bytes < 0) return Result::kInvalidArgument;
    return nccl_adapter::isend(comm, data, static_cast<size_t>(bytes), mhandle, nullptr, request);
  }
  static Result isend(void* comm, void* data, size_t bytes, int, void* mhandle, void** request) {
    return nccl_adapter::isend(comm, data, bytes, mhandle, nullptr, request);
  }
  static Result isend(void* comm, void* data, size_t bytes, int, void* mhandle, void* phandle,
                      void** request) {
    return nccl_adapter::isend(comm, data, bytes, mhandle, phandle, request);
  }

  static Result irecv(void* comm, int count, void** data, int* sizes, int*, void** mhandles,
                      void** request) {
    *request = nullptr;
    if (count < 1 || sizes[0] < 0) return Result::kInvalidArgument;
    const auto bytes = static_cast<size_t>(sizes[0]);
    void* mhandle = mhandles != nullptr ? mhandles[0] : nullptr;
    return nccl_adapter::irecv(comm, count, data[0], bytes, mhandle, nullptr, request);
  }
  static Result irecv(void* comm, int count, void** data, size_t* sizes, int* tags, void** mhandles,
                      void** request) {
    return irecv(comm, count, data, sizes, tags, mhandles, nullptr, request);
  }
  static Result irecv(void* comm, int count, void** data, size_t* sizes, int*, void** mhandles,
                      void** phandles, void** request) {
    *request = nullptr;
    if (count < 1) return Result::kInvalidArgument;
    void* phandle = phandles != nullptr ? phandles[0] : nullptr;
    void* mhandle = mhandles != nullptr ? mhandles[0] : nullptr;
    return nccl_adapter::irecv(comm, count, data[0], sizes[0], mhandle, phandle, request);
  }
};

/// Once a process. The plugin itself cannot prevent it: no call comes after the last finalize.
void warn_where_nccl_loses_plugin() {
  static std::atomic<bool> is_mentioned{false};
  if (keeps_plugin(std::getenv(kPluginUsersSetting)) || is_mentioned.exchange(true)) return;
  log_warn(
      "after its last communicator NCCL 2.28.3 to 2.29.7 loses this plugin, and the next one of "
      "this process fails or uses sockets: export %s=1",
      kPluginUsersSetting);
}

/// NCCL 2.28 and 2.29 take this version, and no other NCCL does.
struct PluginV11 : Plugin {
  static Result init(void** context, uint64_t communicator, CommConfig* config, Logger logger,
                     ProfilerCallback profiler) {
    const Result result = Plugin::init(context, communicator, config, logger, profiler);
    if (result == Result::kSuccess) warn_where_nccl_loses_plugin();
    return result;
  }
};

}  // namespace
}  // namespace lyre::nccl_adapter

LYRE_EXPORT_NET_TABLE(8, lyre::nccl_adapter::Plugin);
LYRE_EXPORT_NET_TABLE(9, lyre::nccl_adapter::Plugin);
LYRE_EXPORT_NET_TABLE(10, lyre::nccl_adapter::Plugin);
LYRE_EXPORT_NET_TABLE(11, lyre::nccl_adapter::PluginV11);
LYRE_EXPORT_NET_TABLE(12, lyre::nccl_adapter::Plugin);
