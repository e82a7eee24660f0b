#pragma once

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/plugin.h"

/// What v11 and later have in common: everything but the structs of properties.
namespace lyre::nccl_adapter {

inline Result init_with_context(void** context, uint64_t communicator, nccl_abi::CommConfig*,
                                nccl_abi::Logger logger, nccl_abi::ProfilerCallback) {
  return init_context(context, communicator, logger);
}

inline Result connect_with_context(void* context, int dev, void* handle, void** send_comm,
                                   nccl_abi::NetDeviceHandle**) {
  return connect(context, dev, handle, send_comm);
}

inline Result isend_tagged(void* comm, void* data, size_t bytes, int, void* mhandle, void*,
                           void** request) {
  return isend(comm, data, bytes, mhandle, request);
}

inline Result irecv_tagged(void* comm, int count, void** data, size_t* sizes, int*, void**, void**,
                           void** request) {
  return irecv(comm, count, data[0], sizes[0], request);
}

template <typename Table, typename AbiProperties>
constexpr Table context_table() {
  return {.name = kPluginName,
          .init = init_with_context,
          .devices = devices,
          .get_properties = get_properties<AbiProperties>,
          .listen = listen,
          .connect = connect_with_context,
          .accept = accept,
          .reg_mr = reg_mr,
          .reg_mr_dma_buf = nullptr,
          .dereg_mr = dereg_mr,
          .isend = isend_tagged,
          .irecv = irecv_tagged,
          .iflush = iflush,
          .test = test,
          .close_send = close_comm,
          .close_recv = close_comm,
          .close_listen = close_listen,
          .get_device_mr = nullptr,
          .irecv_consumed = nullptr,
          .make_vdevice = nullptr,
          .finalize = finalize,
          .set_net_attr = set_net_attr};
}

}  // namespace lyre::nccl_adapter
