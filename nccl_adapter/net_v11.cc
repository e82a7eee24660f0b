#include "nccl_adapter/abi/net_v11.h"

#include "nccl_adapter/plugin.h"

/// ABI v11: one context a communicator.
namespace lyre::nccl_adapter {
namespace {

using namespace lyre::nccl_abi;

Result init_v11(void** context, uint64_t, CommConfig*, Logger logger, ProfilerCallback) {
  return init_context(context, logger);
}

Result connect_v11(void* context, int dev, void* handle, void** send_comm, NetDeviceHandle**) {
  return connect(context, dev, handle, send_comm);
}

Result isend_v11(void* comm, void* data, size_t bytes, int, void*, void*, void** request) {
  return isend(comm, data, bytes, request);
}

Result irecv_v11(void* comm, int count, void** data, size_t* sizes, int*, void**, void**,
                 void** request) {
  return irecv(comm, count, data[0], sizes[0], request);
}

}  // namespace
}  // namespace lyre::nccl_adapter

namespace adapter = lyre::nccl_adapter;
namespace abi = lyre::nccl_abi;

extern "C" __attribute__((visibility("default"))) const abi::NetV11 ncclNetPlugin_v11;

const abi::NetV11 ncclNetPlugin_v11 = {
    .name = adapter::kPluginName,
    .init = adapter::init_v11,
    .devices = adapter::devices,
    .get_properties = adapter::get_properties<abi::PropertiesV11>,
    .listen = adapter::listen,
    .connect = adapter::connect_v11,
    .accept = adapter::accept,
    .reg_mr = adapter::reg_mr,
    .reg_mr_dma_buf = nullptr,
    .dereg_mr = adapter::dereg_mr,
    .isend = adapter::isend_v11,
    .irecv = adapter::irecv_v11,
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
