#include "nccl_adapter/transport/verbs/ports.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "nccl_adapter/transport/address.h"

namespace lyre::nccl_adapter {
namespace {

// A ring, and header and payload of a send: what a queue pair is made of.
constexpr uint32_t kWorkRequestsMin = 64;
constexpr uint32_t kSgesMin = 2;
/// That of rdma_rxe (drivers/infiniband/sw/rxe/rxe_param.h of Linux), which has delivered wrong
/// bytes (Linux 6.1, when it sends again).
constexpr uint32_t kEmulatedVendor = 0xffffff;
// More is not searched: a table of thousands is a table of virtual functions' entries.
constexpr int kGidsMax = 1024;

// InfiniBand's encodings: a lane's rate, and how many lanes (IBA 14.2.5.6, PortInfo).
uint32_t speed_mbps(const ibv_port_attr& port) {
  const uint32_t lane_mbps = [&]() -> uint32_t {
    switch (port.active_speed) {
      case 1:
        return 2'500;
      case 2:
        return 5'000;
      case 4:
      case 8:
        return 10'000;
      case 16:
        return 14'000;
      case 32:
        return 25'000;
      case 64:
        return 50'000;
      case 128:
        return 100'000;
      default:
        return 0;
    }
  }();
  switch (port.active_width) {
    case 1:
      return lane_mbps;
    case 2:
      return lane_mbps * 4;
    case 4:
      return lane_mbps * 8;
    case 8:
      return lane_mbps * 12;
    case 16:
      return lane_mbps * 2;
    default:
      return 0;
  }
}

uint32_t mtu_bytes(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

// The table has holes in containers and behind removed addresses: what cannot be read is skipped.
std::vector<Gid> read_gids(const VerbsApi& api, ibv_context* context, uint8_t port, int count) {
  std::vector<Gid> gids;
  for (int i = 0; i < std::min(count, kGidsMax); ++i) {
    ibv_gid_entry entry{};
    const auto index = static_cast<uint32_t>(i);
    if (api.query_gid_ex(context, port, index, &entry, 0, sizeof entry) != 0) continue;
    Gid gid{.index = index, .address = {}, .is_roce_v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2};
    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), gid.address.begin());
    if (!is_none(gid.address)) gids.push_back(gid);
  }
  return gids;
}

bool is_usable(const Gid& gid) { return gid.is_roce_v2 && !is_link_local(gid.address); }

std::string judge(const ibv_device& device, const ibv_port_attr& attr, const VerbsPort& port) {
  const bool has_roce_v2 = std::any_of(port.gids.begin(), port.gids.end(),
                                       [](const Gid& gid) { return gid.is_roce_v2; });
  if (device.transport_type == IBV_TRANSPORT_IWARP) {
    if (!has_roce_v2) return "it speaks iWARP, whose connections only RDMA-CM makes";
  } else if (device.transport_type != IBV_TRANSPORT_IB) {
    return "it has no reliable connections";
  }
  if (attr.link_layer != IBV_LINK_LAYER_ETHERNET) return "its link layer is not Ethernet";
  if (attr.state != IBV_PORT_ACTIVE) return "the port is not active";
  if (port.limits.work_requests < kWorkRequestsMin || port.limits.sges < kSgesMin) {
    return "it takes " + std::to_string(port.limits.work_requests) + " work requests with " +
           std::to_string(port.limits.sges) + " pieces, needed are " +
           std::to_string(kWorkRequestsMin) + " with " + std::to_string(kSgesMin);
  }
  if (std::none_of(port.gids.begin(), port.gids.end(), is_usable)) {
    return "its GID table has no RoCE v2 address that is not link-local";
  }
  return {};
}

// A descriptor that is none: a device that takes dma-bufs looks at it, one that does not says so.
bool takes_dma_buf(const VerbsApi& api, ibv_context* context) {
  if (api.reg_dmabuf_mr == nullptr) return false;
  ibv_pd* pd = api.alloc_pd(context);
  if (pd == nullptr) return false;
  ibv_mr* mr = api.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
  const bool is_taken = mr == nullptr && errno == EBADF;
  if (mr != nullptr) api.dereg_mr(mr);
  api.dealloc_pd(pd);
  return is_taken;
}

bool is_wanted(const std::vector<std::string>& names, const VerbsPort& port) {
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return name == port.device || name == port.device + ":" + std::to_string(port.port);
         });
}

VerbsPort unusable(const VerbsApi& api, ibv_device* device, const std::string& why) {
  VerbsPort port;
  port.device = api.get_device_name(device);
  port.why_not = why;
  return port;
}

VerbsPort read_port(const VerbsApi& api, ibv_device* device, ibv_context* context, uint8_t number,
                    const VerbsLimits& limits) {
  VerbsPort port = unusable(api, device, "");
  port.port = number;
  port.location = location_of(std::string(device->ibdev_path) + "/device");
  port.limits = limits;
  ibv_port_attr attr{};
  const int code = api.query_port(context, number, reinterpret_cast<_compat_ibv_port_attr*>(&attr));
  if (code != 0) {
    port.why_not = std::string("its attributes cannot be read: ") + std::strerror(code);
    return port;
  }
  port.speed_mbps = speed_mbps(attr);
  port.mtu_bytes = mtu_bytes(attr.active_mtu);
  port.gids = read_gids(api, context, number, attr.gid_tbl_len);
  port.why_not = judge(*device, attr, port);
  return port;
}

void read_device(const VerbsApi& api, ibv_device* device, const Settings& settings,
                 std::vector<VerbsPort>* out) {
  ibv_context* context = api.open_device(device);
  if (context == nullptr) {
    const char* why = std::strerror(errno);
    out->push_back(unusable(api, device, std::string("it cannot be opened: ") + why));
    return;
  }
  for (VerbsPort& port : read_verbs_ports(api, context, settings)) {
    out->push_back(std::move(port));
  }
  api.close_device(context);
}

std::string text_of(const Address& address) {
  std::string text = to_string(make_addr(address, 0));
  if (text.ends_with(":0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

std::string VerbsPort::name() const {
  return port > 1 ? device + " port " + std::to_string(port) : device;
}

std::string VerbsPort::describe() const {
  std::string text = name();
  if (!why_not.empty()) return text + ", cannot be used: " + why_not;
  if (speed_mbps > 0) text += ", " + std::to_string(speed_mbps) + " Mb/s";
  text += ", MTU " + std::to_string(mtu_bytes);
  if (!location.pci_path.empty()) {
    text += ", PCI " + location.pci_path.substr(location.pci_path.rfind('/') + 1);
  }
  if (location.numa_node >= 0) text += ", NUMA node " + std::to_string(location.numa_node);
  if (takes_dma_buf) text += ", dma-buf";
  for (const Gid& gid : gids) {
    if (is_usable(gid)) text += ", GID " + std::to_string(gid.index) + " " + text_of(gid.address);
  }
  return text;
}

std::vector<VerbsPort> read_verbs_ports(const VerbsApi& api, ibv_context* context,
                                        const Settings& settings) {
  ibv_device* device = context->device;
  ibv_device_attr attr{};
  if (const int code = api.query_device(context, &attr); code != 0) {
    const char* why = std::strerror(code);
    return {unusable(api, device, std::string("its attributes cannot be read: ") + why)};
  }
  if (attr.vendor_id == kEmulatedVendor && !settings.takes_emulated_verbs) {
    return {unusable(api, device, "it is emulated (LYRE_VERBS_EMULATED=1 takes it)")};
  }
  const VerbsLimits limits{.work_requests = static_cast<uint32_t>(std::max(attr.max_qp_wr, 0)),
                           .sges = static_cast<uint32_t>(std::max(attr.max_sge, 0)),
                           .completions = static_cast<uint32_t>(std::max(attr.max_cqe, 0))};
  const bool has_dma_buf = takes_dma_buf(api, context);
  std::vector<VerbsPort> ports;
  for (int i = 1; i <= attr.phys_port_cnt; ++i) {
    VerbsPort port = read_port(api, device, context, static_cast<uint8_t>(i), limits);
    port.takes_dma_buf = has_dma_buf;
    if (!is_wanted(settings.verbs_devices, port)) port.why_not = "not in LYRE_VERBS_DEVICES";
    ports.push_back(std::move(port));
  }
  return ports;
}

bool is_named_before(const VerbsPort& a, const VerbsPort& b) {
  const auto order = [](const VerbsPort& port) {
    return std::tuple(port.device.size(), port.device, port.port);
  };
  return order(a) < order(b);
}

std::vector<VerbsPort> find_verbs_ports(const VerbsApi& api, const Settings& settings) {
  std::vector<VerbsPort> ports;
  int count = 0;
  ibv_device** list = api.get_device_list(&count);
  if (list == nullptr) return ports;
  for (int i = 0; i < count; ++i) read_device(api, list[i], settings, &ports);
  api.free_device_list(list);
  std::stable_sort(ports.begin(), ports.end(), is_named_before);
  return ports;
}

int common_bits(const Address& a, const Address& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const auto differing = static_cast<uint8_t>(a[i] ^ b[i]);
    if (differing != 0) return static_cast<int>(i * 8) + std::countl_zero(differing);
  }
  return static_cast<int>(a.size() * 8);
}

std::vector<Gid> fitting_gids(std::span<const Gid> gids, const Address& remote, int64_t index) {
  std::vector<Gid> fitting;
  for (const Gid& gid : gids) {
    if (index >= 0 && gid.index != index) continue;
    if (is_usable(gid) && is_ipv4(gid.address) == is_ipv4(remote)) fitting.push_back(gid);
  }
  std::stable_sort(fitting.begin(), fitting.end(), [&](const Gid& a, const Gid& b) {
    return common_bits(a.address, remote) > common_bits(b.address, remote);
  });
  return fitting;
}

std::optional<Gid> choose_gid(std::span<const Gid> gids, const Address& remote, int64_t index) {
  const std::vector<Gid> fitting = fitting_gids(gids, remote, index);
  return fitting.empty() ? std::nullopt : std::optional(fitting.front());
}

}  // namespace lyre::nccl_adapter
