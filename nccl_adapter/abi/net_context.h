#pragma once

#include "nccl_adapter/abi/common.h"

namespace lyre::nccl_abi {

/// The table from v11 on, which differs from version to version in its structs only: one context a
/// communicator, finalize (never null) and setNetAttr (may be null).
template <typename Properties, typename VirtualDevice>
struct NetWithContext {
  const char* name;
  Result (*init)(void** context, uint64_t comm_id, CommConfig* config, Logger logger,
                 ProfilerCallback profiler);
  Result (*devices)(int* ndev);
  Result (*get_properties)(int dev, Properties* props);
  Result (*listen)(void* context, int dev, void* handle, void** listen_comm);
  Result (*connect)(void* context, int dev, void* handle, void** send_comm,
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
  Result (*make_vdevice)(int* dev, VirtualDevice* props);
  Result (*finalize)(void* context);
  Result (*set_net_attr)(void* context, NetAttr* attr);
};

}  // namespace lyre::nccl_abi
