#include "tools/lyre/doctor/port_checks.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string>

#include "stack/base/mac_address.h"
#include "stack/base/path_mtus.h"
#include "tools/lyre/network.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

/// A claim is past when it is older. A host with a duplicate address asks for its neighbours every
/// few minutes at most, and each question is a claim.
constexpr int64_t kClaimIsPastNs = 600'000'000'000;
/// Headers of IP and TCP, without options: what RFC 9293 3.7.1 subtracts from the MTU.
constexpr uint32_t kIpv4HeadersBytes = 40;
constexpr uint32_t kIpv6HeadersBytes = 60;
/// Headers of IP and ICMP: what `ping -s` does not count.
constexpr uint32_t kPingHeadersBytes = 28;
constexpr uint32_t kPing6HeadersBytes = 48;
/// A wire corrupts fewer segments. A kernel that computes no checksums makes all of its own wrong.
constexpr uint64_t kGoodForEachBad = 1000;

Finding check_link(const PortSnapshot& port) {
  const std::string link = port.name + ": " + port.device + ", link " + link_text(port);
  if (port.state != 0) {
    return problem("port", link, "the device does not run: no packet leaves or arrives",
                   "lyred opens it when it is back: `journalctl -u lyred` says what it waits for");
  }
  if (port.is_link_up) return fine("port", link);
  return problem("port", link, "no packet leaves or arrives",
                 "check the cable, the peer of the wire, or `journalctl -u lyred`");
}

bool is_ipv4_address(const std::string& text) { return text.find(':') == std::string::npos; }

/// Whether the MAC is known to be that of a router of a port.
bool is_router(const Snapshot& snapshot, size_t port, const uint8_t (&mac)[6]) {
  const auto is_gateway = [&](const channel::NeighbourView& neighbour) {
    return std::any_of(snapshot.routes.begin(), snapshot.routes.end(), [&](const auto& route) {
      return route.port == port && std::memcmp(route.gateway, neighbour.address, 16) == 0;
    });
  };
  return std::any_of(snapshot.neighbours.begin(), snapshot.neighbours.end(), [&](const auto& one) {
    return one.port == port && std::memcmp(one.mac, mac, sizeof mac) == 0 && is_gateway(one);
  });
}

Finding check_address(const Snapshot& snapshot, size_t index) {
  const PortSnapshot& port = snapshot.ports[index];
  if (!port.claim) {
    return fine("address", port.name + ": no other host claims an address of it");
  }
  const channel::ClaimView& claim = *port.claim;
  const int64_t age_ns = snapshot.taken_unix_ns - claim.seen_unix_ns;
  const std::string claimed = format_address(claim.address);
  const std::string saw = port.name + ": the host with MAC " + mac_text(claim.mac) + " claimed " +
                          claimed + " " + format_duration(std::max<int64_t>(age_ns, 0)) + " ago";
  // An IPv6 address for which a router answers is not used (RFC 4862 5.4.4).
  if (is_ipv4_address(claimed) && is_router(snapshot, index, claim.mac)) {
    return note("address", saw,
                "a router of this port answers for the address (proxy ARP), or has it itself",
                "at the router: no proxy ARP for the network of this port, where it is not meant");
  }
  const char* why = "two hosts have one address: packets for one of them reach the other";
  const std::string mend =
      "on one of the two hosts: another `address` in /etc/lyre/lyred.toml, and "
      "systemctl restart lyred";
  if (age_ns < kClaimIsPastNs) return problem("address", saw, why, mend);
  return note("address", saw, why, mend);
}

std::string offloads_text(const channel::PortOffloads& offloads) {
  std::string out =
      std::string(offloads.driver, ::strnlen(offloads.driver, sizeof offloads.driver)) + ", " +
      std::to_string(offloads.queue_count) + " queue" + (offloads.queue_count == 1 ? "" : "s");
  out += offloads.has_rss != 0 ? ", RSS" : ", no RSS";
  out +=
      offloads.tso_bytes_max > 0 ? ", TSO of " + format_bytes(offloads.tso_bytes_max) : ", no TSO";
  const auto checksums = [&out](bool is_there, const char* way) {
    out += std::string(is_there ? ", " : ", no ") + way + " checksums";
  };
  checksums(offloads.has_tx_checksums != 0, "sent");
  checksums(offloads.has_rx_checksums != 0, "received");
  return out;
}

/// What costs most comes first.
Finding check_nic_offloads(const PortSnapshot& port, size_t workers) {
  const channel::PortOffloads& offloads = port.offloads;
  const std::string saw = port.name + ": " + offloads_text(offloads);
  if (workers > 1 && (offloads.queue_count < workers || offloads.has_rss == 0)) {
    return note(
        "offloads", saw,
        "without RSS one worker receives all packets, and passes on those of the others",
        "workers.cores with one core in /etc/lyre/lyred.toml, or a NIC with as many queues as "
        "workers");
  }
  if (offloads.has_tx_checksums == 0 || offloads.has_rx_checksums == 0) {
    return note("offloads", saw, "the worker reads every byte to compute checksums",
                "a NIC, or an instance type, whose driver has checksum offload");
  }
  if (offloads.tso_bytes_max == 0) {
    return note("offloads", saw, "the worker cuts what is sent into packets",
                "a larger `mtu` of the [[port]] on all hosts, where the network carries it");
  }
  return fine("offloads", saw);
}

struct Path {
  uint32_t carried_bytes = 0;  ///< the largest IP packet
  bool is_peers_limit = false;
  const PortSnapshot* port = nullptr;
};

bool has_address(const PortSnapshot& port, const uint8_t (&address)[16]) {
  return std::any_of(port.addresses.begin(), port.addresses.end(), [&address](const auto& own) {
    return std::memcmp(own.address, address, sizeof address) == 0;
  });
}

const PortSnapshot* port_with(const Snapshot& snapshot, const uint8_t (&address)[16]) {
  for (const PortSnapshot& port : snapshot.ports) {
    if (has_address(port, address)) return &port;
  }
  return nullptr;
}

/// By peer, of all sessions to it the one whose packets are smallest.
std::map<std::string, Path> paths_of(const Snapshot& snapshot) {
  std::map<std::string, Path> out;
  for (const channel::SessionView& view : snapshot.sessions) {
    if (!is_established(view) || view.mss_full_bytes == 0) continue;
    const PortSnapshot* port = port_with(snapshot, view.local_address);
    if (port == nullptr || port_with(snapshot, view.remote_address) != nullptr) continue;
    const std::string peer = format_address(view.remote_address);
    const uint32_t headers = is_ipv4_address(peer) ? kIpv4HeadersBytes : kIpv6HeadersBytes;
    const Path path{.carried_bytes = view.mss_bytes + headers,
                    .is_peers_limit = view.mss_bytes == view.mss_full_bytes,
                    .port = port};
    const auto [it, is_new] = out.try_emplace(peer, path);
    if (!is_new && path.carried_bytes < it->second.carried_bytes) it->second = path;
  }
  return out;
}

uint32_t ping_headers_bytes(const std::string& peer) {
  return is_ipv4_address(peer) ? kPingHeadersBytes : kPing6HeadersBytes;
}

/// TCP does not know more of this path, for the moment or for good, or a router told this size.
Finding check_silent_path(const std::string& peer, const Path& path, const std::string& saw) {
  return note("path mtu", saw,
              "larger packets do not arrive, or did not for a moment: the limit is from " +
                  std::to_string(path.carried_bytes) + " to " +
                  std::to_string(path.port->mtu_bytes),
              "`ping -M do -s SIZE " + peer +
                  "` in this network: the largest SIZE that is answered, plus " +
                  std::to_string(ping_headers_bytes(peer)) +
                  ", is the `mtu` for the [[port]] on both hosts; or a larger MTU in the network");
}

/// A step of TCP's search.
Finding check_searched_path(const std::string& peer, const Path& path, const std::string& saw) {
  return note("path mtu", saw, "TCP knows of no larger ones that arrive",
              "mtu = " + std::to_string(path.carried_bytes) +
                  " at least of the [[port]] on both hosts, `ping -M do -s SIZE " + peer +
                  "` shows whether more: SIZE plus " + std::to_string(ping_headers_bytes(peer)) +
                  "; or a larger MTU in the network");
}

Finding check_path(const std::string& peer, const Path& path) {
  const std::string saw = peer + ": packets of " + std::to_string(path.carried_bytes) +
                          " bytes, the MTU of " + path.port->name + " is " +
                          std::to_string(path.port->mtu_bytes);
  if (path.is_peers_limit) {
    return note("path mtu", saw, "the peer takes no larger ones: more packets for the same bytes",
                "the same `mtu` of the [[port]] on both hosts");
  }
  // TCP uses this while it does not know more, or a router told it: WireGuard's may have 1280.
  const uint32_t least = is_ipv4_address(peer) ? kIpv4PathMtuMin : kPathMtuSteps.front();
  if (path.carried_bytes == least) return check_silent_path(peer, path, saw);
  if (std::find(kPathMtuSteps.begin(), kPathMtuSteps.end(), path.carried_bytes) !=
      kPathMtuSteps.end()) {
    return check_searched_path(peer, path, saw);
  }
  return note("path mtu", saw,
              "the network between carries no larger ones: packets were lost until that was found",
              "mtu = " + std::to_string(path.carried_bytes) +
                  " of the [[port]] on both hosts, or a larger MTU in the network");
}

uint64_t dropped(const Snapshot& snapshot, Drop reason) {
  uint64_t sum = 0;
  for (const WorkerSnapshot& worker : snapshot.workers) {
    sum += worker.drops[static_cast<size_t>(reason)];
  }
  return sum;
}

uint64_t segments_in(const Snapshot& snapshot) {
  uint64_t sum = 0;
  for (const WorkerSnapshot& worker : snapshot.workers) sum += worker[Counter::tcp_segments_in];
  return sum;
}

/// Whether the other end of a port may be a kernel that computes no checksums.
bool has_interface(const Snapshot& snapshot) {
  return std::any_of(snapshot.ports.begin(), snapshot.ports.end(), [](const PortSnapshot& port) {
    return port.device.find("iface=") != std::string::npos;
  });
}

}  // namespace

std::vector<Finding> check_links(const Snapshot& snapshot) {
  std::vector<Finding> findings;
  for (const PortSnapshot& port : snapshot.ports) findings.push_back(check_link(port));
  return findings;
}

std::vector<Finding> check_addresses(const Snapshot& snapshot) {
  if (snapshot.is_domain) return {};
  std::vector<Finding> findings;
  for (size_t port = 0; port < snapshot.ports.size(); ++port) {
    findings.push_back(check_address(snapshot, port));
  }
  return findings;
}

std::vector<Finding> check_offloads(const Snapshot& snapshot) {
  std::vector<Finding> findings;
  for (const PortSnapshot& port : snapshot.ports) {
    if (port.offloads.is_nic == 0) continue;
    findings.push_back(check_nic_offloads(port, snapshot.workers.size()));
  }
  return findings;
}

std::vector<Finding> check_paths(const Snapshot& snapshot) {
  const std::map<std::string, Path> paths = paths_of(snapshot);
  if (paths.empty()) {
    return {
        fine("path mtu", "no session with another host is open: `lyre doctor` sees it in a job")};
  }
  std::vector<Finding> findings;
  for (const auto& [peer, path] : paths) {
    if (path.carried_bytes < path.port->mtu_bytes) findings.push_back(check_path(peer, path));
  }
  const size_t whole = paths.size() - findings.size();
  if (whole > 0) {
    findings.push_back(fine("path mtu", std::to_string(whole) + (whole == 1 ? " peer" : " peers") +
                                            ": packets as large as the port's MTU"));
  }
  return findings;
}

std::vector<Finding> check_checksums(const Snapshot& snapshot, const Snapshot* earlier) {
  const uint64_t bad = dropped(snapshot, Drop::kTcpBadChecksum);
  if (bad == 0) return {};
  const uint64_t before = earlier != nullptr ? dropped(*earlier, Drop::kTcpBadChecksum) : bad;
  std::string saw =
      std::to_string(bad) + " segments with a wrong checksum were dropped since the start";
  if (bad > before) saw += ", " + std::to_string(bad - before) + " of them between two looks";
  if (!has_interface(snapshot)) {
    return {note("checksums", saw, "the network or a NIC corrupts packets",
                 "look at the counters of switches and of the NIC")};
  }
  const std::string mend = "at the other end: ethtool -K INTERFACE tx off";
  if (bad <= before && bad <= segments_in(snapshot) / kGoodForEachBad) {
    return {note("checksums", saw,
                 "the network corrupted packets, or a kernel at the other end of a virtual wire "
                 "left checksums to hardware that is not there",
                 "if there are more: " + mend)};
  }
  return {problem("checksums", saw,
                  "a kernel at the other end of a virtual wire leaves checksums to hardware that "
                  "is not there",
                  mend)};
}

bool needs_earlier_look(const Snapshot& snapshot) {
  return has_interface(snapshot) && dropped(snapshot, Drop::kTcpBadChecksum) > 0;
}

}  // namespace lyre::tools
