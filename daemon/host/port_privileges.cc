#include "daemon/host/port_privileges.h"

#include <cerrno>
#include <vector>

#include "machine/port_kind.h"

namespace lyre {
namespace {

using machine::PortKind;

constexpr Capabilities kRaw = capability(CAP_NET_RAW);
constexpr Capabilities kNetwork = capability(CAP_NET_ADMIN);
/// A NIC without IOMMU gets physical addresses, which DPDK's heap and pinned client memory need
/// again and again; its files are root's, and VFIO requires CAP_SYS_RAWIO for its group. Such a NIC
/// reads and writes any memory of the machine: a process that drives it is as powerful with these
/// capabilities as without them.
constexpr Capabilities kPhysical =
    capability(CAP_SYS_ADMIN) | capability(CAP_SYS_RAWIO) | capability(CAP_DAC_OVERRIDE);
/// Queues and flow rules are made by the kernel's driver, which asks for these again.
constexpr Capabilities kBifurcated = kRaw | kNetwork;

/// What opens a port is kept: a device that was away is opened again. A packet socket's
/// buffers exceed net.core.rmem_max with CAP_NET_ADMIN. AF_XDP's driver takes its program from the
/// interface when the port closes.
Capabilities needed_by(PortKind kind) {
  switch (kind) {
    case PortKind::kPlain:
      return 0;
    case PortKind::kAfPacket:
      return kRaw | kNetwork;
    case PortKind::kAfXdp:
      return kRaw | kNetwork | capability(CAP_BPF);
    case PortKind::kTap:
      return kNetwork;
    case PortKind::kWithoutIommu:
      return kPhysical;
    case PortKind::kBesideKernelDriver:
      return kBifurcated;
    case PortKind::kVmbus:
      return kPhysical | kBifurcated;
  }
  return 0;
}

/// "the drop-in a.conf", "the drop-ins a.conf and b.conf".
std::string drop_ins_text(PortKind kind) {
  const std::vector<std::string> names = machine::drop_ins_of(kind);
  std::string text = names.size() > 1 ? "the drop-ins " : "the drop-in ";
  for (const std::string& name : names) text += (&name == &names[0] ? "" : " and ") + name;
  return text;
}

}  // namespace

Status check_privileges(const Config& config, Capabilities held, const machine::Roots& roots) {
  for (const PortConfig& port : config.ports) {
    const PortKind kind = machine::port_kind(port.device, roots);
    const Capabilities missing = needed_by(kind) & ~held;
    if (missing == 0) continue;
    return Error{
        EPERM, complaint(config.file, port.lines.of("device"), "port.device",
                         "'" + port.device + "' of '" + port.name + "' needs " + names_of(missing) +
                             ", allowed: root, or a service with " + drop_ins_text(kind))};
  }
  return Ok{};
}

Capabilities capabilities_to_keep(const Config& config, const machine::Roots& roots) {
  // CAP_IPC_LOCK only permits locking memory: client memory is pinned as long as the daemon runs.
  Capabilities kept = capability(CAP_IPC_LOCK);
  for (const PortConfig& port : config.ports) {
    kept |= needed_by(machine::port_kind(port.device, roots));
  }
  return kept;
}

}  // namespace lyre
