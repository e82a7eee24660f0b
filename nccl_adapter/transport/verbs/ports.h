#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/settings.h"
#include "nccl_adapter/transport/verbs/library.h"
#include "nccl_adapter/transport/verbs/location.h"

/// Ports of this host's RDMA devices, and the addresses that they have.
namespace lyre::nccl_adapter {

/// An entry of a port's GID table. Its bytes are an address, IPv4 mapped.
struct Gid {
  uint32_t index;
  Address address;
  bool is_roce_v2;
};

/// What the device can take, as it said itself.
struct VerbsLimits {
  uint32_t work_requests = 0;  ///< of one queue pair
  uint32_t sges = 0;           ///< of one work request
  uint32_t completions = 0;    ///< of one completion queue
};

inline constexpr const char* kNoDevice = "this host has no RDMA device";

struct VerbsPort {
  std::string device;  ///< "erdma_0"
  uint8_t port = 0;    ///< from 1; 0: the device could not be asked for its ports
  Location location;
  uint32_t speed_mbps = 0;
  uint32_t mtu_bytes = 0;
  VerbsLimits limits;
  bool takes_dma_buf = false;  ///< as far as the device says
  std::vector<Gid> gids;       ///< those that could be read and are not empty
  std::string why_not;         ///< empty: a queue pair can be made on it

  /// "erdma_0", "mlx5_0 port 2".
  std::string name() const;
  /// "erdma_0, 100000 Mb/s, MTU 1024, PCI 0000:3b:00.0, NUMA node 1, dma-buf, GID 1 10.9.0.1", as
  /// far as it is known, or why it cannot be used.
  std::string describe() const;
};

/// The ports of an open device, those that cannot be used, or shall not, with the reason.
std::vector<VerbsPort> read_verbs_ports(const VerbsApi& api, ibv_context* context,
                                        const Settings& settings);

/// The order in which ports are dealt to rails: mlx5_2 before mlx5_10.
bool is_named_before(const VerbsPort& a, const VerbsPort& b);

/// All ports of all devices in the order of their names, those that cannot be used with the reason.
/// Opens each device for the time of the call.
std::vector<VerbsPort> find_verbs_ports(const VerbsApi& api, const Settings& settings);

/// Leading bits that two addresses have in common.
int common_bits(const Address& a, const Address& b);

/// The GIDs from which `remote` can be spoken to: RoCE v2, of its family, not link-local. The one
/// that has most leading bits in common is first; equal ones keep their order. `index`: no other
/// than this one; -1: any.
std::vector<Gid> fitting_gids(std::span<const Gid> gids, const Address& remote, int64_t index = -1);
/// The first of them.
std::optional<Gid> choose_gid(std::span<const Gid> gids, const Address& remote, int64_t index = -1);

}  // namespace lyre::nccl_adapter
