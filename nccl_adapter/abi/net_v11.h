#pragma once

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/abi/net_context.h"

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

/// ncclNet_v11_t, exported as ncclNetPlugin_v11 (NCCL 2.28 and 2.29).
using NetV11 = NetWithContext<PropertiesV11, VDevicePropsV9>;
static_assert(sizeof(NetV11) == 176);
static_assert(offsetof(NetV11, make_vdevice) == 152);
static_assert(offsetof(NetV11, finalize) == 160);
static_assert(offsetof(NetV11, set_net_attr) == 168);

}  // namespace lyre::nccl_abi
