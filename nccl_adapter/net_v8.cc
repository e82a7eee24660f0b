#include "nccl_adapter/abi/net_v8.h"

#include "nccl_adapter/plugin.h"

/// ABI v8: the oldest, whose sizes are ints.
namespace lyre::nccl_adapter {
namespace {

using namespace lyre::nccl_abi;

Result init_v8(Logger logger) { return init_process(logger); }

Result listen_v8(int dev, void* handle, void** listen_comm) {
  return listen(process_context(), dev, handle, listen_comm);
}

Result connect_v8(int dev, void* handle, void** send_comm, NetDeviceHandle**) {
  return connect(process_context(), dev, handle, send_comm);
}

Result isend_v8(void* comm, void* data, int bytes, int, void* mhandle, void** request) {
  *request = nullptr;
  if (bytes < 0) return Result::kInvalidArgument;
  return isend(comm, data, static_cast<size_t>(bytes), mhandle, request);
}

Result irecv_v8(void* comm, int count, void** data, int* sizes, int*, void**, void** request) {
  *request = nullptr;
  if (count < 1 || sizes[0] < 0) return Result::kInvalidArgument;
  return irecv(comm, count, data[0], static_cast<size_t>(sizes[0]), request);
}

}  // namespace
}  // namespace lyre::nccl_adapter

namespace adapter = lyre::nccl_adapter;
namespace abi = lyre::nccl_abi;

extern "C" __attribute__((visibility("default"))) const abi::NetV8 ncclNetPlugin_v8;

const abi::NetV8 ncclNetPlugin_v8 = {
    .name = adapter::kPluginName,
    .init = adapter::init_v8,
    .devices = adapter::devices,
    .get_properties = adapter::get_properties<abi::PropertiesV8>,
    .listen = adapter::listen_v8,
    .connect = adapter::connect_v8,
    .accept = adapter::accept,
    .reg_mr = adapter::reg_mr,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = adapter::dereg_mr,
    .isend = adapter::isend_v8,
    .irecv = adapter::irecv_v8,
    .iflush = adapter::iflush,
    .test = adapter::test,
    .close_send = adapter::close_comm,
    .close_recv = adapter::close_comm,
    .close_listen = adapter::close_listen,
    .get_device_mr = nullptr,
    .irecv_consumed = nullptr,
};
