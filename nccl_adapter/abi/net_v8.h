#pragma once

#include "nccl_adapter/abi/common.h"

namespace lyre::nccl_abi {

/// ncclNetProperties_v8_t.
struct PropertiesV8 {
  const char* name;
  const char* pci_path;  // sysfs path of the NIC, or null
  uint64_t guid;
  int32_t ptr_support;  // kPtrHost | kPtrCuda | kPtrDmaBuf
  int32_t reg_is_global;
  int32_t speed_mbps;
  int32_t port;
  float latency_us;
  int32_t comms_max;
  int32_t recvs_max;
  NetDeviceType device_type;
  int32_t device_version;
};
static_assert(sizeof(PropertiesV8) == 64);
static_assert(offsetof(PropertiesV8, ptr_support) == 24);
static_assert(offsetof(PropertiesV8, speed_mbps) == 32);
static_assert(offsetof(PropertiesV8, device_version) == 56);

/// ncclNet_v8_t, exported as ncclNetPlugin_v8 (NCCL 2.20 to 2.23).
struct NetV8 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* ndev);
  Result (*get_properties)(int dev, PropertiesV8* props);
  Result (*listen)(int dev, void* handle, void** listen_comm);
  Result (*connect)(int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
  Result (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
  Result (*reg_mr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*reg_mr_dma_buf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                           void** mhandle);
  Result (*dereg_mr)(void* comm, void* mhandle);
  Result (*isend)(void* send_comm, void* data, int size, int tag, void* mhandle, void** request);
  Result (*irecv)(void* recv_comm, int n, void** data, int* sizes, int* tags, void** mhandles,
                  void** request);
  Result (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles,
                   void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_recv)(void* recv_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_mr)(void* comm, void* mhandle, void** device_mhandle);
  Result (*irecv_consumed)(void* recv_comm, int n, void* request);
};
static_assert(sizeof(NetV8) == 152);
static_assert(offsetof(NetV8, isend) == 80);
static_assert(offsetof(NetV8, test) == 104);
static_assert(offsetof(NetV8, irecv_consumed) == 144);

}  // namespace lyre::nccl_abi
