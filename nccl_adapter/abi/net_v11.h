#pragma once

#include "nccl_adapter/abi/common.h"

namespace lyre::nccl_abi {

/// ncclNetProperties_v11_t.
struct PropertiesV11 {
  const char* name;
  const char* pci_path;  // sysfs path of the NIC, or null
  uint64_t guid;
  int32_t ptr_support;  // kPtrHost | kPtrCuda | kPtrDmaBuf
  int32_t reg_is_global;
  int32_t force_flush;
  int32_t speed_mbps;
  int32_t port;
  float latency_us;
  int32_t comms_max;
  int32_t recvs_max;
  NetDeviceType device_type;
  int32_t device_version;
  VDevicePropsV9 vprops;
  size_t p2p_bytes_max;   // 0 or more than kNetBytesMax is an error of NCCL's init
  size_t coll_bytes_max;  // the same
  int32_t multi_request_size_max;
};
static_assert(sizeof(PropertiesV11) == 112);
static_assert(offsetof(PropertiesV11, speed_mbps) == 36);
static_assert(offsetof(PropertiesV11, vprops) == 64);
static_assert(offsetof(PropertiesV11, p2p_bytes_max) == 88);
static_assert(offsetof(PropertiesV11, coll_bytes_max) == 96);
static_assert(offsetof(PropertiesV11, multi_request_size_max) == 104);

/// ncclNet_v11_t, exported as ncclNetPlugin_v11 (NCCL 2.28 and 2.29): one context a communicator,
/// finalize (never null) and setNetAttr (may be null).
struct NetV11 {
  const char* name;
  Result (*init)(void** context, uint64_t comm_id, CommConfig* config, Logger logger,
                 ProfilerCallback profiler);
  Result (*devices)(int* ndev);
  Result (*get_properties)(int dev, PropertiesV11* props);
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
  Result (*make_vdevice)(int* dev, VDevicePropsV9* props);
  Result (*finalize)(void* context);
  Result (*set_net_attr)(void* context, NetAttr* attr);
};
static_assert(sizeof(NetV11) == 176);
static_assert(offsetof(NetV11, make_vdevice) == 152);
static_assert(offsetof(NetV11, finalize) == 160);
static_assert(offsetof(NetV11, set_net_attr) == 168);

}  // namespace lyre::nccl_abi
