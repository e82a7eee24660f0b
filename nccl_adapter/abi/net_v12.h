#pragma once

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/abi/net_context.h"

namespace lyre::nccl_abi {

/// ncclNetProperties_v12_t.
struct PropertiesV12 {
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
  VDevicePropsV12 vprops;
  size_t p2p_bytes_max;   // 0 or more than kNetBytesMax is an error of NCCL's init
  size_t coll_bytes_max;  // the same
  int32_t multi_request_size_max;
  int16_t rail_id;   // kNetIdUndefined where there are no rails
  int16_t plane_id;  // the same
};
static_assert(sizeof(PropertiesV12) == 128);
static_assert(offsetof(PropertiesV12, speed_mbps) == 36);
static_assert(offsetof(PropertiesV12, vprops) == 64);
static_assert(offsetof(PropertiesV12, p2p_bytes_max) == 104);
static_assert(offsetof(PropertiesV12, coll_bytes_max) == 112);
static_assert(offsetof(PropertiesV12, multi_request_size_max) == 120);
static_assert(offsetof(PropertiesV12, rail_id) == 124);
static_assert(offsetof(PropertiesV12, plane_id) == 126);

/// ncclNet_v12_t, exported as ncclNetPlugin_v12 (NCCL 2.30): v11 with eight devices a NIC.
using NetV12 = NetWithContext<PropertiesV12, VDevicePropsV12>;
static_assert(sizeof(NetV12) == 176);
static_assert(offsetof(NetV12, make_vdevice) == 152);
static_assert(offsetof(NetV12, finalize) == 160);
static_assert(offsetof(NetV12, set_net_attr) == 168);

}  // namespace lyre::nccl_abi
