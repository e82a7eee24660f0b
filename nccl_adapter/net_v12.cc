#include "nccl_adapter/abi/net_v12.h"

#include "nccl_adapter/plugin.h"

/// ABI v12: v11 with room for rails in the properties.
namespace lyre::nccl_adapter {
namespace {

using namespace lyre::nccl_abi;

Result init_v12(void** context, uint64_t, CommConfig*, Logger logger, ProfilerCallback) {
  return init_context(context, logger);
}

Result connect_v12(void* context, int dev, void* handle, void** send_comm, NetDeviceHandle**) {
  return connect(context, dev, handle, send_comm);
}

Result isend_v12(void* comm, void* data, size_t bytes, int, void*, void*, void** request) {
  return isend(comm, data, bytes, request);
}

Result irecv_v12(void* comm, int count, void** data, size_t* sizes, int*, void**, void**,
                 void** request) {
  return irecv(comm, count, data[0], sizes[0], request);
}

}  // namespace
}  // namespace lyre::nccl_adapter

namespace adapter = lyre::nccl_adapter;
namespace abi = lyre::nccl_abi;

extern "C" __attribute__((visibility("default"))) const abi::NetV12 ncclNetPlugin_v12;

const abi::NetV12 ncclNetPlugin_v12 = {
    .name = adapter::kPluginName,
    .init = adapter::init_v12,
    .devices = adapter::devices,
    .get_properties = adapter::get_properties<abi::PropertiesV12>,
    .listen = adapter::listen,
    .connect = adapter::connect_v12,
    .accept = adapter::accept,
    .reg_mr = adapter::reg_mr,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = adapter::dereg_mr,
    .isend = adapter::isend_v12,
    .irecv = adapter::irecv_v12,
    .iflush = adapter::iflush,
    .test = adapter::test,
    .close_send = adapter::close_comm,
    .close_recv = adapter::close_comm,
    .close_listen = adapter::close_listen,
    .get_device_mr = nullptr,
    .irecv_consumed = nullptr,
    .make_vdevice = nullptr,
    .finalize = adapter::finalize,
    .set_net_attr = adapter::set_net_attr,
};
