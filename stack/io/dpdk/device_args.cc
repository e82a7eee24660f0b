#include "stack/io/dpdk/device_args.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "stack/io/dpdk/memif_segments.h"

namespace lyre::io::dpdk {
namespace {

constexpr std::string_view kVmbus = "vmbus:";
constexpr std::string_view kMemif = "net_memif";
constexpr std::string_view kAfPacket = "net_af_packet";
constexpr std::string_view kAfXdp = "net_af_xdp";
constexpr std::string_view kVirtioUser = "net_virtio_user";
constexpr std::string_view kBusyBudget = "busy_budget";
constexpr uint32_t kTapQueuesMax = 16;  // DPDK: TAP_MAX_QUEUES

/// A virtual driver, and its options as DPDK 22.11 has them (`valid_arguments` of the driver): the
/// oldest release that Lyre is built with. net_memif and net_tap ignore all options where they do
/// not know one of them.
struct VirtualDriver {
  std::string_view name;
  std::string_view options;          ///< separated by ", "
  std::string_view queues_option{};  ///< the one of them that is the number of queue pairs
  uint32_t queue_pairs = 0;          ///< without that option; 0: as many as Lyre asks for
};
constexpr VirtualDriver kVirtualDrivers[] = {
    {kMemif, "role, socket, socket-abstract, id, bsize, rsize, mac, secret, zero-copy"},
    {kAfPacket, "iface"},  // none of the driver's: see PacketPort
    {kAfXdp, "iface, start_queue, queue_count, shared_umem, xdp_prog, busy_budget, force_copy",
     "queue_count", 1},
    {"net_tap", "iface, remote, mac, persist", {}, kTapQueuesMax},
};

bool is_in_list(std::string_view list, std::string_view word) {
  constexpr std::string_view kSeparator = ", ";
  while (!list.empty()) {
    const size_t end = std::min(list.find(kSeparator), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + kSeparator.size(), list.size()));
  }
  return false;
}

/// Packet memory is outside of DPDK's heap. net_virtio_user tells its backends of the heap alone
/// (22.11): vhost_kernel_set_memory_table() and vhost_vdpa_set_memory_table() leave other memory
/// out, and vhost_user_set_memory_table() fails with it, for want of a descriptor.
Error blind_backend(const DeviceArgs& args) {
  return Error{EINVAL, args.name() +
                           ": its backend cannot see the daemon's packet memory, allowed: "
                           "net_tap, net_af_packet or net_memif"};
}

Status check_option_names(const DeviceArgs& args) {
  if (args.driver() == kVirtioUser) return blind_backend(args);
  std::string names;
  for (const VirtualDriver& driver : kVirtualDrivers) {
    names += (names.empty() ? "" : ", ") + std::string(driver.name);
    if (driver.name != args.driver()) continue;
    for (const auto& [name, value] : args.options()) {
      if (is_in_list(driver.options, name)) continue;
      return Error{EINVAL, args.name() + ": unknown option '" + name +
                               "', allowed: " + std::string(driver.options)};
    }
    return Ok{};
  }
  return Error{EINVAL, args.name() + ": unknown virtual device, allowed: " + names + ""};
}

/// An option that takes words: memif's driver looks for them anywhere in the value.
Status check_choice(const DeviceArgs& args, std::string_view option, std::string_view choices) {
  if (!args.has(option) || is_in_list(choices, args.value_of(option))) return Ok{};
  return Error{EINVAL, args.name() + ": " + std::string(option) + " is '" +
                           std::string(args.value_of(option)) +
                           "', allowed: " + std::string(choices)};
}

/// With 0 the driver sleeps in poll(), for up to a second, when it has received nothing and the
/// kernel wants to be told of new buffers: rx_burst() must not block. It takes what is no number
/// for 0.
Status check_busy_budget(const DeviceArgs& args) {
  for (const auto& [name, value] : args.options()) {
    if (name != kBusyBudget) continue;
    uint16_t budget = 0;
    const char* const value_end = value.data() + value.size();
    const auto [end, failure] = std::from_chars(value.data(), value_end, budget);
    if (failure == std::errc() && end == value_end && budget > 0) continue;
    return Error{EINVAL, args.name() + ": busy_budget is '" + value + "', allowed: 1 to 65535"};
  }
  return Ok{};
}

uint32_t round_frame_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

/// Removes a socket file that has no listener: it remains after a crash and would keep the next
/// daemon from starting. The probe has another socket type than memif's sockets, so a live
/// listener's kernel refuses it and the listener sees no connection. A real connection that ends at
/// once can abort a DPDK 22.11 server.
void remove_stale_socket(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  sockaddr_un address = {};
  if (path.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const int rc = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  if (rc != 0 && errno == ECONNREFUSED) unlink(path.c_str());
  close(fd);
}

/// Two ends of a memif meet only if they have the same id. Its upper bits say what both ends must
/// have alike, so that ends that differ have no link: a queue whose peer has none works on the ring
/// of queue 0 (DPDK 22.11), and an end that verifies checksums drops what a trusted end sends. Of
/// one queue without any of this the bits are 0.
Status mark_wire(DeviceArgs& args, const VirtualDeviceNeeds& needs) {
  constexpr uint32_t kQueuesAt = 22;  // 8 bits: the driver has fewer than 256
  constexpr uint32_t kTrusted = 1u << 30;
  constexpr uint32_t kSuperPackets = 1u << 31;
  static_assert(kMemifIdMax < 1u << kQueuesAt);
  const std::string_view given = args.has("id") ? args.value_of("id") : "0";
  uint32_t id = 0;
  const auto [end, failure] = std::from_chars(given.begin(), given.end(), id);
  if (failure != std::errc() || end != given.end() || id > kMemifIdMax) {
    return Error{EINVAL,
                 args.name() + ": id must be a number of at most " + std::to_string(kMemifIdMax)};
  }
  id |= (needs.queue_count - 1) << kQueuesAt;
  if (needs.is_trusted) id |= kTrusted;
  if (needs.has_super_packets) id |= kSuperPackets;
  args.remove("id");
  args.set_default("id", std::to_string(id));
  return Ok{};
}

Status check_memif_words(const DeviceArgs& args) {
  // With "yes" the driver corrupts packets and stalls.
  if (Status done = check_choice(args, "zero-copy", "no"); !done) return done;
  if (Status done = check_choice(args, "role", "server, client"); !done) return done;
  return check_choice(args, "socket-abstract", "yes, no");
}

Status set_memif_options(DeviceArgs& args, const VirtualDeviceNeeds& needs) {
  if (Status done = check_memif_words(args); !done) return done;
  if (needs.has_super_packets) {
    if (Status done = check_memif_super_packets(args.name(), dpdk_version()); !done) return done;
  }
  // A frame that the driver packs must fit one buffer: the flag NEXT of a slot that was not the
  // last one stays set, and merges a later frame with the one behind it (22.11).
  const uint32_t frame_bytes =
      needs.has_super_packets ? kMemifBufferBytesMax : needs.mtu_bytes + kFrameOverheadBytes;
  if (Status marked = mark_wire(args, needs); !marked) return marked;
  args.set_default("bsize", std::to_string(round_frame_up(frame_bytes, 64)));
  // Rings that fit the cache are faster.
  args.set_default("rsize", needs.has_super_packets ? "6" : needs.mtu_bytes > 4096 ? "8" : "9");
  const auto bsize = std::strtoul(std::string(args.value_of("bsize")).c_str(), nullptr, 10);
  if (bsize < frame_bytes || bsize > kMemifBufferBytesMax) {
    return Error{EINVAL, args.name() + ": bsize must lie between the largest frame, " +
                             std::to_string(frame_bytes) + ", and " +
                             std::to_string(kMemifBufferBytesMax)};
  }
  if (args.value_of("socket").starts_with('/')) args.set_default("socket-abstract", "no");
  return Ok{};
}

Status prepare_memif(DeviceArgs& args, const VirtualDeviceNeeds& needs) {
  if (Status done = set_memif_options(args, needs); !done) return done;
  const std::string_view socket = args.value_of("socket");
  const bool is_file = socket.starts_with('/') && args.value_of("socket-abstract") == "no";
  if (is_file && args.value_of("role") == "server") remove_stale_socket(std::string(socket));
  return Ok{};
}

}  // namespace

DeviceArgs DeviceArgs::parse(std::string_view device) {
  DeviceArgs args;
  while (!device.empty()) {
    const size_t comma = std::min(device.find(','), device.size());
    const std::string_view word = device.substr(0, comma);
    device.remove_prefix(std::min(comma + 1, device.size()));
    const size_t equals = word.find('=');
    if (args.name_.empty()) {
      args.name_ = word;
    } else if (equals == std::string_view::npos) {
      args.options_.emplace_back(word, "");
    } else {
      args.options_.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  return args;
}

bool DeviceArgs::is_pci() const {
  return !name_.empty() && std::isxdigit(static_cast<unsigned char>(name_[0])) != 0 &&
         name_.find(':') != std::string::npos;
}

bool DeviceArgs::is_vmbus() const { return name_.starts_with(kVmbus); }

std::string DeviceArgs::device_name() const {
  if (!is_vmbus()) return name_;
  // The kernel writes its identifiers in lower case, and DPDK takes the kernel's name.
  std::string name = name_.substr(kVmbus.size());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::string DeviceArgs::kernel_folder(const std::string& sys) const {
  return sys + "/bus/" + (is_vmbus() ? "vmbus" : "pci") + "/devices/" + device_name();
}

std::string_view DeviceArgs::driver() const {
  if (is_pci()) return "pci";
  if (is_vmbus()) return "vmbus";
  std::string_view name = name_;
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) {
    name.remove_suffix(1);
  }
  return name;
}

std::string_view DeviceArgs::value_of(std::string_view key) const {
  for (const auto& [name, value] : options_) {
    if (name == key) return value;
  }
  return {};
}

bool DeviceArgs::has(std::string_view key) const {
  return std::any_of(options_.begin(), options_.end(),
                     [key](const auto& entry) { return entry.first == key; });
}

void DeviceArgs::set_default(std::string_view key, std::string value) {
  if (!has(key)) options_.emplace_back(key, std::move(value));
}

void DeviceArgs::append(const DeviceArgs& other) {
  options_.insert(options_.end(), other.options_.begin(), other.options_.end());
}

void DeviceArgs::remove(std::string_view key) {
  std::erase_if(options_, [key](const auto& entry) { return entry.first == key; });
}

std::string DeviceArgs::text() const {
  std::string text = name_;
  for (const auto& [key, value] : options_) {
    text += ',' + key;
    if (!value.empty()) text += '=' + value;
  }
  return text;
}

Status check_virtual_device(std::string_view device, const VirtualDeviceNeeds& needs) {
  DeviceArgs args = DeviceArgs::parse(device);
  if (Status known = check_option_names(args); !known) return known;
  if (args.driver() == kMemif) return set_memif_options(args, needs);
  if (args.driver() == kAfXdp) return check_busy_budget(args);
  return Ok{};
}

uint32_t virtual_queue_pairs_max(const DeviceArgs& args) {
  for (const VirtualDriver& driver : kVirtualDrivers) {
    if (driver.name != args.driver()) continue;
    const std::string_view given = args.value_of(driver.queues_option);
    uint32_t number = driver.queue_pairs;
    std::from_chars(given.data(), given.data() + given.size(), number);
    return number;
  }
  return 0;
}

Status prepare_virtual_device(DeviceArgs& args, const VirtualDeviceNeeds& needs) {
  if (args.driver() == kMemif) return prepare_memif(args, needs);
  if (needs.has_super_packets) {
    return Error{ENOTSUP,
                 args.name() + ": super-packets are for memif, net_af_packet and virtio NICs"};
  }
  if (args.driver() == kAfXdp) return check_busy_budget(args);
  return Ok{};
}

}  // namespace lyre::io::dpdk
