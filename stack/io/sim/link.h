#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/io/packet_io.h"
#include "stack/io/sim/flow_hash.h"
#include "stack/io/sim/memory.h"
#include "stack/io/sim/path.h"

namespace lyre::io::sim {

/// Which side computes and verifies checksums.
enum class Checksums : uint8_t {
  kSoftware,  ///< completed and counted in software; the receiver gets kUnknown
  kHardware,  ///< completed by the port; the receiver gets a true verdict
  kTrusted    ///< not completed; the receiver gets kGood
};

/// When a port's driver frees the packets that it sent. Until then it holds their pieces.
enum class TxRelease : uint8_t {
  kAtOnce,       ///< the CPU copies, as with memif
  kOnReclaim,    ///< reclaim(), and a burst that finds the ring full
  kBySending32,  ///< a burst frees what was sent before, 32 packets at a time; reclaim() nothing
  kOnReclaimWhileUp,  ///< as kOnReclaim, but nothing while the link is down
  kByReuse            ///< a burst that needs the place of the oldest in the ring; reclaim() nothing
};

/// Faults of the link. Units: millionths of all frames.
struct Faults {
  uint32_t loss_ppm = 0;
  uint32_t duplicate_ppm = 0;
  uint32_t corrupt_ppm = 0;  ///< one bit after the Ethernet header is flipped
  uint32_t reorder_ppm = 0;  ///< delayed by up to reorder_delay more, so that later frames overtake
  Nanos reorder_delay = micros(100);
};

/// Both directions have the same options at first; set_path() changes one.
struct LinkOptions {
  uint64_t seed = 1;
  uint32_t mtu_bytes = 1500;
  Nanos delay = nanos(0);
  uint64_t rate_bytes_per_s = 0;  ///< 0: unlimited
  uint32_t frames_max = 4096;     ///< in flight or unread in one direction; then tx is short
  /// Unread frames of a queue. Those that find the ring full are lost, and counted as missed. 0: no
  /// limit, so that a receiver which does not read holds its sender back (frames_max).
  uint32_t rx_ring_frames = 0;
  Faults faults;
  Checksums checksums = Checksums::kSoftware;
  uint32_t tso_bytes_max = 0;  ///< as the capability of a NIC with TSO
  bool has_ipv6_tso = true;    ///< false: a TSO packet over IPv6 ends the test
  /// TSO packets cross the link uncut, and fill as many slots as they need. With checksums of
  /// software the receiver drops them, because it does not verify them.
  bool has_super_packets = false;
  uint32_t tx_pieces_max = kTxPiecesMax;
  uint32_t tso_segments_max = UINT32_MAX;  ///< a TSO packet with more ends the test
  uint32_t cut_segments_max = UINT32_MAX;  ///< the same for each packet that is cut from them
  TxRelease tx_release = TxRelease::kAtOnce;
  uint32_t tx_ring_packets = 1024;  ///< packets that a port holds at most
};

/// The number of frames of one direction, by outcome.
using LinkCounters = PathCounters;

class Queue;

/// An in-memory link between two ports, 0 and 1, each with queues. Frames arrive when advance() has
/// reached their time: the same seed and calls give the same run.
/// Thread: one. Owner: outlives the users of its queues; the memories outlive it.
class Link {
 public:
  explicit Link(const LinkOptions& options);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Adds the next queue of port `end`, which receives into `memory`. Call before any frame is
  /// sent.
  PacketIo& add_queue(int end, Memory& memory, uint8_t port_index = 0);
  PacketIo& queue(int end, uint32_t index);

  void advance(Nanos now);
  Nanos now() const { return now_; }
  /// The time at which the next frame arrives, or kNever.
  Nanos next_deadline() const;

  /// From now on flows map to other queues, as when a NIC's indirection table is rewritten.
  void redistribute(int end, uint64_t seed) { ports_[end].hash.redistribute(seed); }
  /// The device of `end` is taken away, or begins a reset, when it has sent `frames` more: in the
  /// midst of a burst, perhaps. Then it sends, receives and frees nothing, and its link is down.
  void take_away(int end, uint32_t frames = 0);
  /// The driver of a device that is away is closed: it frees what it held, and drops what it is
  /// given.
  void close_driver(int end);
  /// The device runs again.
  void bring_back(int end);
  /// Another process has the device of `end`, whose driver is closed: queue i receives into
  /// memories[i].
  void bring_back(int end, std::span<Memory* const> memories);
  bool has_device(int end) const { return ports_[end].device == Device::kPresent; }
  bool is_closed(int end) const { return ports_[end].device == Device::kClosed; }
  /// While the link is down, frames are accepted and lost.
  void set_up(bool is_up) { is_up_ = is_up; }
  bool is_up() const { return is_up_; }
  /// Frames that `end` sends from now on are lost, and neither port notices: as with one broken
  /// fibre of a pair, behind a switch.
  void set_cut(int end, bool is_cut) { ports_[end].is_cut = is_cut; }
  /// Changes the path of frames that `end` sends from now on.
  void set_path(int end, const PathOptions& path) { ports_[end].path.set_options(path); }
  const PathOptions& path(int end) const { return ports_[end].path.options(); }
  /// Frames that `end` sent.
  const LinkCounters& counters(int end) const { return ports_[end].path.counters(); }
  const LinkOptions& options() const { return options_; }

 private:
  friend class Queue;  // queues are the part of a Link that users hold
  static constexpr uint32_t kNone = UINT32_MAX;

  enum class Device : uint8_t { kPresent, kAway, kClosed };
  struct Frame {
    Nanos due;
    uint64_t order = 0;  ///< the older frame arrives first when times are equal
    uint32_t length = 0;
    uint32_t next = kNone;
  };
  struct Port {
    Port(const PathOptions& options, uint64_t seed);
    ~Port();
    MacAddress mac;
    FlowHash hash;
    std::vector<std::unique_ptr<Queue>> queues;
    Path path;  ///< of frames that this end sends
    std::vector<Frame> frames;
    std::unique_ptr<uint8_t[]> bytes;
    std::vector<uint32_t> free;
    std::vector<uint32_t> under_way;  ///< a heap by due and order
    Device device = Device::kPresent;
    bool is_cut = false;           ///< what this end sends is lost
    uint32_t frames_left = kNone;  ///< that the device sends until it is away; kNone: no end
  };
  uint32_t room_bytes() const {
    const uint32_t bytes = options_.has_super_packets ? kIpPacketBytesMax : options_.mtu_bytes;
    return bytes + kFrameOverheadBytes;
  }
  uint8_t* bytes_of(Port& port, uint32_t frame) {
    return port.bytes.get() + size_t{frame} * room_bytes();
  }
  /// A free buffer for a frame of `end`, or kNone when all are in use.
  uint32_t take_frame(int end);
  void give_back(int end, uint32_t frame) { ports_[end].free.push_back(frame); }
  void dispatch(int end, uint32_t frame);
  bool can_send(Port& port);
  void put_under_way(int end, uint32_t frame, Nanos due);
  void duplicate(int end, uint32_t frame, Nanos due);
  void arrive(int end, uint32_t frame);

  static constexpr uint32_t kFrameOverheadBytes = 14 + 4;
  static constexpr uint32_t kIpPacketBytesMax = 65535;

  LinkOptions options_;
  Nanos now_;
  bool is_up_ = true;
  uint64_t order_ = 0;
  std::array<Port, 2> ports_;
};

}  // namespace lyre::io::sim
