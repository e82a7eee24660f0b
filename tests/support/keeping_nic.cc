// Preloaded into lyred: a port on AF_XDP, "net_af_xdp0,iface=eth1,xdp_prog=none", becomes one on
// that kernel interface by DPDK's driver net_af_packet, which lyred does not use, and behaves as a
// NIC whose driver keeps what it is given. Its MTU is 1500 at most.
//
// The driver frees packets 32 at a time, and only when it is given others. While the link is down
// it takes packets until its ring is full, sends none and frees none. When the link is up again it
// sends them, and only then reads their bytes. For lyred it is a NIC that sends client memory,
// and frees packets in their order.
//
// The bytes of a packet may not change before they are read. The file $LYRE_TEST_KEEPING_NIC gets
// a line "kept" when a port begins to keep packets unread, and a line "changed" for each of them
// whose bytes are others when it is read, or dropped because the device is stopped.
#include <dlfcn.h>
#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view kNamedDriver = "net_af_xdp";
constexpr std::string_view kWrappedDriver = "net_af_packet";
/// Frames of a ring that fit receive buffers for this MTU, in whole pages.
constexpr const char* kRings = ",qpairs=1,framesz=1584,framecnt=512,blocksz=811008";
constexpr std::string_view kShownDriver = "net_hinic";
constexpr size_t kRingPackets = 512;
constexpr size_t kFreedAtOnce = 32;

/// DPDK's function, in front of which this library has one of the same name.
template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void report(const std::string& line) {
  const char* path = std::getenv("LYRE_TEST_KEEPING_NIC");
  if (path != nullptr) std::ofstream(path, std::ios::app) << line << std::endl;
}

/// False, too, when the interface is gone: another one of its name is not it.
bool is_interface_running(int index) {
  static const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq answer = {};
  answer.ifr_ifindex = index;
  return ioctl(fd, SIOCGIFNAME, &answer) == 0 && ioctl(fd, SIOCGIFFLAGS, &answer) == 0 &&
         (answer.ifr_flags & IFF_RUNNING) != 0;
}

std::vector<uint8_t> bytes_of(const rte_mbuf* packet) {
  std::vector<uint8_t> bytes;
  for (const rte_mbuf* segment = packet; segment != nullptr; segment = segment->next) {
    const auto* data = rte_pktmbuf_mtod(segment, const uint8_t*);
    bytes.insert(bytes.end(), data, data + segment->data_len);
  }
  return bytes;
}

/// One transmit queue. Thread: the queue's worker, or the control thread while that does not poll.
class KeepingQueue {
 public:
  KeepingQueue(int interface, eth_tx_burst_t burst, void* driver_queue)
      : interface_(interface), burst_(burst), driver_queue_(driver_queue) {}
  ~KeepingQueue() {
    for (const Unread& kept : unread_) compare(kept);
    for (const Unread& kept : unread_) rte_pktmbuf_free(kept.packet);
    free_oldest(sent_.size());
  }

  uint16_t take(rte_mbuf** packets, uint16_t count) {
    const bool is_up = is_interface_running(interface_);
    if (is_up) read_kept();
    if (count == 0) return 0;
    if (is_up) free_oldest(sent_.size() / kFreedAtOnce * kFreedAtOnce);
    const size_t room = kRingPackets - sent_.size() - unread_.size();
    const auto taken = static_cast<uint16_t>(std::min<size_t>(count, room));
    return is_up ? send(packets, taken) : keep(packets, taken);
  }

 private:
  struct Unread {
    rte_mbuf* packet;
    std::vector<uint8_t> bytes;
  };

  /// AF_PACKET's driver copies a packet and frees it: the ring has a reference of its own.
  uint16_t send(rte_mbuf** packets, uint16_t count) {
    std::for_each(packets, packets + count, [](rte_mbuf* m) { rte_pktmbuf_refcnt_update(m, 1); });
    const uint16_t sent = burst_(driver_queue_, packets, count);
    sent_.insert(sent_.end(), packets, packets + sent);
    std::for_each(packets + sent, packets + count,
                  [](rte_mbuf* m) { rte_pktmbuf_refcnt_update(m, -1); });
    return sent;
  }

  uint16_t keep(rte_mbuf** packets, uint16_t count) {
    if (count > 0 && unread_.empty()) report("kept");
    for (uint16_t i = 0; i < count; ++i) unread_.push_back({packets[i], bytes_of(packets[i])});
    return count;
  }

  void read_kept() {
    for (; !unread_.empty(); unread_.pop_front()) {
      compare(unread_.front());
      if (send(&unread_.front().packet, 1) == 0) return;
    }
  }

  static void compare(const Unread& kept) {
    if (bytes_of(kept.packet) == kept.bytes) return;
    report("changed: a packet of " + std::to_string(kept.bytes.size()) + " bytes");
  }

  void free_oldest(size_t count) {
    for (; count > 0; --count, sent_.pop_front()) rte_pktmbuf_free(sent_.front());
  }

  int interface_;
  eth_tx_burst_t burst_;
  void* driver_queue_;
  std::deque<rte_mbuf*> sent_;  // read, and not freed
  std::deque<Unread> unread_;   // younger than all of those
};

uint16_t send_by(void* queue, rte_mbuf** packets, uint16_t count) {
  return static_cast<KeepingQueue*>(queue)->take(packets, count);
}

struct KeepingNic {
  std::atomic<int> interface { 0 };  // 0: the port is none
  std::vector<std::unique_ptr<KeepingQueue>> queues;
  std::array<void*, RTE_MAX_QUEUES_PER_PORT> data{};  // what the driver's calls are given
};
std::array<KeepingNic, RTE_MAX_ETHPORTS> nics;

void stand_before(uint16_t port_id, int interface) {
  rte_eth_dev_info device = {};
  rte_eth_dev_info_get(port_id, &device);
  KeepingNic& nic = nics[port_id];
  struct rte_eth_fp_ops& calls = rte_eth_fp_ops[port_id];
  for (uint16_t i = 0; i < device.nb_tx_queues; ++i) {
    nic.queues.push_back(
        std::make_unique<KeepingQueue>(interface, calls.tx_pkt_burst, calls.txq.data[i]));
    nic.data[i] = nic.queues.back().get();
  }
  nic.interface = interface;
  calls.tx_pkt_burst = send_by;
  calls.txq.data = nic.data.data();
}

/// The name that the wrapped driver has for what lyred calls `name`.
std::string wrapped(std::string_view name) {
  if (!name.starts_with(kNamedDriver)) return std::string(name);
  return std::string(kWrappedDriver) + std::string(name.substr(kNamedDriver.size()));
}

/// The wrapped driver's device for one of lyred's, of whose options it has the interface.
std::string wrapped_device(std::string_view device) {
  if (!device.starts_with(kNamedDriver)) return std::string(device);
  constexpr std::string_view kInterface = ",iface=";
  const std::string_view option = device.substr(device.find(kInterface));
  return wrapped(device.substr(0, device.find(','))) +
         std::string(option.substr(0, option.find(',', 1))) + kRings;
}

}  // namespace

extern "C" int rte_dev_probe(const char* devargs) {
  static const auto real = next<int (*)(const char*)>("rte_dev_probe");
  return real(wrapped_device(devargs).c_str());
}

extern "C" int rte_eth_dev_get_port_by_name(const char* name, uint16_t* port_id) {
  static const auto real = next<int (*)(const char*, uint16_t*)>("rte_eth_dev_get_port_by_name");
  return real(wrapped(name).c_str(), port_id);
}

extern "C" int rte_eth_dev_info_get(uint16_t port_id, rte_eth_dev_info* device) {
  static const auto real = next<int (*)(uint16_t, rte_eth_dev_info*)>("rte_eth_dev_info_get");
  const int rc = real(port_id, device);
  if (rc == 0 && device->driver_name == kWrappedDriver) device->driver_name = kShownDriver.data();
  return rc;
}

extern "C" int rte_eth_dev_start(uint16_t port_id) {
  static const auto real = next<int (*)(uint16_t)>("rte_eth_dev_start");
  const int rc = real(port_id);
  rte_eth_dev_info device = {};
  if (rc == 0 && rte_eth_dev_info_get(port_id, &device) == 0 &&
      device.driver_name == kShownDriver) {
    stand_before(port_id, static_cast<int>(device.if_index));
  }
  return rc;
}

extern "C" int rte_eth_dev_stop(uint16_t port_id) {
  static const auto real = next<int (*)(uint16_t)>("rte_eth_dev_stop");
  const int rc = real(port_id);
  nics[port_id].interface = 0;
  nics[port_id].queues.clear();
  return rc;
}

extern "C" int rte_eth_link_get_nowait(uint16_t port_id, rte_eth_link* link) {
  static const auto real = next<int (*)(uint16_t, rte_eth_link*)>("rte_eth_link_get_nowait");
  const int rc = real(port_id, link);
  const int interface = nics[port_id].interface;
  if (interface != 0 && !is_interface_running(interface)) link->link_status = RTE_ETH_LINK_DOWN;
  return rc;
}
