#pragma once

#include "nccl_adapter/abi/net_v9.h"

namespace lyre::nccl_abi {

using PropertiesV10 = PropertiesV9;

/// ncclNet_v10_t, exported as ncclNetPlugin_v10 (NCCL 2.26 and 2.27): profiler callback in init,
/// profiler handles in isend and irecv, traffic class in connect.
struct NetV10 {
  const char* name;
  Result (*init)(Logger logger, ProfilerCallback profiler);
  Result (*devices)(int* ndev);
  Result (*get_properties)(int dev, PropertiesV10* props);
  Result (*listen)(int dev, void* handle, void** listen_comm);
  Result (*connect)(int dev, CommConfig* config, void* handle, void** send_comm,
                    NetDeviceHandle** send_dev_comm);
  Result (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
  Result (*reg_mr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*reg_mr_dma_buf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                           void** mhandle);
  Result (*dereg_mr)(void* comm, void* mhandle);
  Result (*isend)(void* send_comm, void* data, size_t size, int tag, void* mhandle, void* phandle,
                  void** request);
  Result (*irecv)(void* recv_comm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
                  void** phandles, void** request);
  Result (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles,
                   void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_recv)(void* recv_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_mr)(void* comm, void* mhandle, void** device_mhandle);
  Result (*irecv_consumed)(void* recv_comm, int n, void* request);
  Result (*make_vdevice)(int* dev, VDevicePropsV9* props);
};
static_assert(sizeof(NetV10) == 160);
static_assert(offsetof(NetV10, make_vdevice) == 152);

}  // namespace lyre::nccl_abi
