#pragma once

#include <cstdint>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/verbs/ports.h"

namespace lyre::nccl_adapter {

/// What differs from port to port in NCCL's properties.
struct Properties {
  const char* name;      ///< lives as long as the process
  const char* pci_path;  ///< the same; null for a virtual port
  uint64_t guid;
  int32_t speed_mbps;
  float latency_us;
};

/// Remembers the ports that devices() and getProperties() describe: NCCL passes those two no
/// context. A port is as fast as the RDMA port of `verbs` that belongs to it, and where it is
/// virtual itself it is where that one is attached. `verbs`: those that can be used, in the order
/// of their names. Each attachment says it anew, and properties may change with it: they are those
/// of the process's last attachment. REQUIRES: there are never fewer ports than first_port_count(),
/// because NCCL asks for their number once. Thread: any.
void set_known_ports(const std::vector<lyre_port>& ports, const std::vector<VerbsPort>& verbs,
                     int64_t latency_us);
int known_port_count();
/// Their number as of the first set_known_ports() with a port; 0 before it.
int first_port_count();
/// The next set_known_ports() is the first again: NCCL will ask for the number again. The ports
/// stay known until then.
void forget_first_port_count();
/// As if set_known_ports() had been called with the ports that are known.
void count_known_ports();
/// Fails: false with a line when there is no such port.
bool known_properties(int dev, Properties* out);

/// Fills the struct of any ABI version.
template <typename AbiProperties>
void fill_properties(int dev, const Properties& in, AbiProperties* out) {
  *out = AbiProperties{};
  out->name = in.name;
  out->pci_path = in.pci_path;
  out->guid = in.guid;
  out->ptr_support = nccl_abi::kPtrHost;
  out->reg_is_global = 0;  // a registration belongs to one comm, which releases it
  out->speed_mbps = in.speed_mbps;
  out->port = 0;
  out->latency_us = in.latency_us;
  out->comms_max = 65'536;
  out->recvs_max = 1;
  out->device_type = nccl_abi::NetDeviceType::kHost;
  if constexpr (requires { out->vprops; }) {
    out->vprops.ndevs = 1;
    out->vprops.devs[0] = dev;
    out->p2p_bytes_max = kMessageBytesMax;
    out->coll_bytes_max = kMessageBytesMax;
  }
  if constexpr (requires { out->multi_request_size_max; }) out->multi_request_size_max = 1;
  if constexpr (requires { out->rail_id; }) {
    out->rail_id = nccl_abi::kNetIdUndefined;
    out->plane_id = nccl_abi::kNetIdUndefined;
  }
}

}  // namespace lyre::nccl_adapter
