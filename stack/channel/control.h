#pragma once

#include <cstdint>
#include <type_traits>

#include "stack/channel/capture.h"
#include "stack/channel/port_address.h"
#include "stack/channel/versions.h"

/// Messages on the control socket (SOCK_SEQPACKET, one message a packet, native byte order; file
/// descriptors are passed by SCM_RIGHTS). Either side detects the end of the other by the socket's
/// hang-up. The daemon checks every field; it disconnects a client that sends an invalid message.
namespace lyre::channel {

inline constexpr uint32_t kControlMagic = 0x4c59'5243;  // "LYRC"
inline constexpr VersionRange kControlVersions{4, 4};
inline constexpr uint32_t kPortsMax = 8;
inline constexpr uint32_t kLabelBytes = 64;
inline constexpr uint32_t kTextBytes = 256;

enum class Control : uint32_t {
  kAttach = 1,     ///< client: AttachRequest
  kAttached,       ///< daemon: AttachReply, with descriptors (see there)
  kInfo,           ///< client: InfoRequest
  kInfoReply,      ///< daemon: InfoReply, with one descriptor: the stats segment
  kGoodbye,        ///< daemon: Goodbye, then it closes the connection
  kRegister,       ///< client: RegisterRequest, with one descriptor or none (see RegionSource)
  kRegistered,     ///< daemon: RegionReply
  kDeregister,     ///< client: DeregisterRequest
  kDeregistered,   ///< daemon: RegionReply
  kRegionPending,  ///< daemon: RegionReply, before kRegistered
  kCapture,        ///< `lyre`: CaptureRequest
  kCaptured,       ///< daemon: CaptureReply, with one descriptor: the rings
  kUpgrade,        ///< administrator: UpgradeRequest
  kUpgradeReply    ///< daemon: UpgradeReply
};

/// The same in all versions, as are Goodbye and what AttachRequest, InfoRequest, CaptureRequest and
/// UpgradeRequest have in version 4: those are sent before either side knows the other's versions.
/// The four requests grow at their ends only. All other messages have the format of the highest
/// common version.
struct ControlHeader {
  uint32_t magic = kControlMagic;
  VersionRange versions = kControlVersions;  ///< those that the sender speaks
  Control type{};
  uint32_t bytes = 0;  ///< of the whole message
};

/// Creates a context for the sender. One connection of the control socket has one context.
struct AttachRequest {
  ControlHeader header;
  VersionRange abi_versions;  ///< those that the sender speaks; ContextHeader says which is used
  uint32_t reserved;
  uint64_t arena_bytes;     ///< 0: the daemon's default
  char label[kLabelBytes];  ///< for display, zero-terminated: program, rank
};

struct PortInfo {
  char name[32];
  char pci_path[128];  ///< sysfs path, empty for virtual ports
  PortAddress addresses[kPortAddressesMax];
  uint32_t address_count;  ///< at least 1; the first is the one to advertise
  uint32_t mtu_bytes;
  uint32_t speed_mbps;  ///< 0: unknown
  uint32_t flow_mbps;   ///< most that the network gives one flow; 0: unknown
  uint32_t is_link_up;
  uint8_t mac[6];
  uint8_t reserved[2];
};

/// The descriptors are, in this order: context memory (read-write), the client's doorbell (the
/// reading end of a pipe), doorbells (read-only), for each worker its doorbell (an eventfd for this
/// client), for each worker its receive pool memory (read-only). With `lends` 0 there are no pools,
/// and payload is copied into the context's copy area.
struct AttachReply {
  ControlHeader header;
  int32_t error;  ///< 0, or an errno value; then text is the reason and nothing follows
  char text[kTextBytes];
  uint32_t worker_count;
  uint32_t lends;
  uint32_t port_count;
  uint32_t poll_is_busy;  ///< the daemon's workers never sleep
  uint64_t generation;
  uint64_t context_bytes;
  uint64_t pool_bytes[64];  ///< by worker
  PortInfo ports[kPortsMax];
};

struct InfoRequest {
  ControlHeader header;
};

struct InfoReply {
  ControlHeader header;
  int32_t error;
  char text[kTextBytes];
  uint64_t stats_bytes;  ///< size of the stats segment
  uint32_t port_count;
  uint32_t worker_count;
  PortInfo ports[kPortsMax];
};

/// The source of registered memory.
enum class RegionSource : uint32_t {
  kDescriptor = 1,  ///< a memfd, or a file of tmpfs or hugetlbfs, whose descriptor is passed
  kSharedAnonymous  ///< the object behind a mapping of the sender's own; no descriptor
};

/// Makes the sender's memory readable by the workers. Whole pages: both ends are multiples of the
/// page size. One request at a time: the next one is handled after the reply to this one.
struct RegisterRequest {
  ControlHeader header;
  RegionSource source;
  uint32_t reserved;
  uint64_t mapping_begin;  ///< kSharedAnonymous: as in the sender's /proc/self/maps
  uint64_t mapping_end;
  uint64_t offset;  ///< in the file or object
  uint64_t bytes;
};

struct DeregisterRequest {
  ControlHeader header;
  uint32_t region;  ///< name
  uint32_t reserved;
};

/// The reply to both. kRegionPending may precede it several times: large memory takes seconds, and
/// the client goes on waiting. kDeregistered is sent when no worker and no port can access the
/// memory any more.
struct RegionReply {
  ControlHeader header;
  int32_t error;  ///< 0, or an errno value; then text is the reason
  char text[kTextBytes];
  uint32_t region;  ///< name
};

/// Copies the packets of a port, until the connection ends. Only the administrator may ask, and not
/// at the socket of a domain: packets are those of all clients. A connection has one capture, and
/// no context.
struct CaptureRequest {
  ControlHeader header;
  uint32_t version;     ///< kCaptureVersion
  uint32_t snap_bytes;  ///< of each packet are copied at most; 1 to kSnapBytesMax
  char port[32];        ///< name, zero-terminated
};

struct CaptureReply {
  ControlHeader header;
  int32_t error;  ///< 0, or an errno value; then text is the reason and nothing follows
  char text[kTextBytes];
  uint32_t ring_count;  ///< the descriptor is of CaptureRing[ring_count], one for each worker
};

/// Starts the daemon's program again, and lets the new process go on in the place of this one. For
/// the daemon's own user and root. The new process has the same control sockets.
struct UpgradeRequest {
  ControlHeader header;
};

/// When the new process serves, or this one goes on.
struct UpgradeReply {
  ControlHeader header;
  int32_t error;  ///< 0, or an errno value; then text is the reason
  char text[kTextBytes];
  int32_t pid;        ///< of the new process
  uint32_t pause_us;  ///< for so long no worker of either process made a turn
  char release[32];   ///< of the new process
};

/// How the text of the Goodbye begins that refuses who is no member of the socket's domain. Every
/// other reason for a Goodbye passes, or is a broken rule.
inline constexpr char kNoMember[] = "no member of the domain";

/// Why the daemon disconnects or refuses a client. A daemon that stops sends none: it hangs up.
struct Goodbye {
  ControlHeader header;
  char text[kTextBytes];
};

static_assert(std::is_trivially_copyable_v<AttachReply> && std::is_trivially_copyable_v<InfoReply>);

}  // namespace lyre::channel
