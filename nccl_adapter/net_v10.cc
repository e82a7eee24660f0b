#include "nccl_adapter/abi/net_v10.h"

#include "nccl_adapter/plugin.h"

/// ABI v10: profiler handles, which this plugin does not use, and a traffic class.
namespace lyre::nccl_adapter {
namespace {

using namespace lyre::nccl_abi;

Result init_v10(Logger logger, ProfilerCallback) { return init_process(logger); }

Result listen_v10(int dev, void* handle, void** listen_comm) {
  return listen(process_context(), dev, handle, listen_comm);
}

Result connect_v10(int dev, CommConfig*, void* handle, void** send_comm, NetDeviceHandle**) {
  return connect(process_context(), dev, handle, send_comm);
}

Result isend_v10(void* comm, void* data, size_t bytes, int, void* mhandle, void*, void** request) {
  return isend(comm, data, bytes, mhandle, request);
}

Result irecv_v10(void* comm, int count, void** data, size_t* sizes, int*, void**, void**,
                 void** request) {
  return irecv(comm, count, data[0], sizes[0], request);
}

}  // namespace
}  // namespace lyre::nccl_adapter

namespace adapter = lyre::nccl_adapter;
namespace abi = lyre::nccl_abi;

extern "C" __attribute__((visibility("default"))) const abi::NetV10 ncclNetPlugin_v10;

const abi::NetV10 ncclNetPlugin_v10 = {
    .name = adapter::kPluginName,
    .init = adapter::init_v10,
    .devices = adapter::devices,
    .get_properties = adapter::get_properties<abi::PropertiesV10>,
    .listen = adapter::listen_v10,
    .connect = adapter::connect_v10,
    .accept = adapter::accept,
    .reg_mr = adapter::reg_mr,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = adapter::dereg_mr,
    .isend = adapter::isend_v10,
    .irecv = adapter::irecv_v10,
    .iflush = adapter::iflush,
    .test = adapter::test,
    .close_send = adapter::close_comm,
    .close_recv = adapter::close_comm,
    .close_listen = adapter::close_listen,
    .get_device_mr = nullptr,
    .irecv_consumed = nullptr,
    .make_vdevice = nullptr,
};
