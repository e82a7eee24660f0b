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

/// What ncclNetProperties_v9_t and all later ones begin with.
template <typename VDevice>
struct PropertiesWithVDevice {
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
  VDevice vprops;
  size_t p2p_bytes_max;   // 0 or more than kNetBytesMax is an error of NCCL's init
  size_t coll_bytes_max;  // the same
};

/// ncclNetProperties_v9_t and _v10_t.
using PropertiesV9 = PropertiesWithVDevice<VDevicePropsV9>;
using PropertiesV10 = PropertiesV9;
static_assert(sizeof(PropertiesV9) == 104);
static_assert(offsetof(PropertiesV9, force_flush) == 32);
static_assert(offsetof(PropertiesV9, speed_mbps) == 36);
static_assert(offsetof(PropertiesV9, vprops) == 64);
static_assert(offsetof(PropertiesV9, p2p_bytes_max) == 88);
static_assert(offsetof(PropertiesV9, coll_bytes_max) == 96);

/// ncclNetProperties_v11_t.
struct PropertiesV11 : PropertiesV9 {
  int32_t multi_request_size_max;  // offset 104
};
static_assert(sizeof(PropertiesV11) == 112);

/// ncclNetProperties_v12_t.
struct PropertiesV12 : PropertiesWithVDevice<VDevicePropsV12> {
  int32_t multi_request_size_max;  // offset 120
  int16_t rail_id;                 // kNetIdUndefined where there are no rails
  int16_t plane_id;                // the same
};
static_assert(sizeof(PropertiesV12) == 128);
static_assert(offsetof(PropertiesWithVDevice<VDevicePropsV12>, p2p_bytes_max) == 104);
static_assert(sizeof(PropertiesWithVDevice<VDevicePropsV12>) == 120);

}  // namespace lyre::nccl_abi
