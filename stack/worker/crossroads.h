#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <variant>

#include "stack/base/check.h"
#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/channel/ring.h"
#include "stack/io/packet.h"
#include "stack/link/ndp.h"
#include "stack/wire/arp.h"
#include "stack/worker/inbox.h"

/// Where the workers of a daemon meet: a NIC spreads packets as it likes, and each connection lives
/// with one worker.
namespace lyre::worker {

/// What one worker hands another.
struct Handoff {
  enum class Kind : uint8_t {
    kNone,
    kFindOwner,  ///< to the home of `tuple`: a packet whose connection its receiver does not have
    kYours,      ///< to the owner of `tuple`: that packet
    kNobodys,    ///< back to the receiver: nobody has that connection, the packet is its own again
    kReturn,     ///< back to the receiver: the packet was used
    kClaim,      ///< to the home of `tuple`: the sender has that connection from now on
    kUnclaim,    ///< to the home of `tuple`: and not any more
    kAdopt,      ///< back to the receiver: the connection itself, and the SYN-ACK that it waits for
    kNeighbour,  ///< to everybody: an ARP or NDP packet arrived
  };
  /// A connection that moves.
  struct Adoption {
    uint32_t context = 0;
    uint64_t context_generation = 0;
    uint64_t cookie = 0;
    Nanos opened_at;
  };
  struct ArpNews {
    uint8_t port = 0;
    wire::ArpPacket packet;
  };
  struct NdpNews {
    uint8_t port = 0;
    link::NdpArrival arrival;
  };

  Kind kind = Kind::kNone;
  uint8_t receiver = 0;             ///< worker that received, and owns the memory of, the packet
  io::PacketBuf* packet = nullptr;  ///< the first four, and kAdopt
  FourTuple tuple;
  std::variant<std::monostate, Adoption, ArpNews, NdpNews> body{};  ///< kAdopt, kNeighbour
};

/// Packets that a worker may have given away and not got back, so that rings that bring them back
/// always have room.
inline constexpr uint32_t kPacketsAwayMax = 128;
inline constexpr uint32_t kHandoffsMax = 512;  ///< of one ring; a power of two

/// What ends a worker's sleep. Thread: any may look and write.
struct Bell {
  const std::atomic<uint32_t>* sleeps = nullptr;  ///< the worker's announcement
  int fd = -1;                                    ///< an eventfd
};

/// A ring from each worker to each other one, one to itself for what it must look at again, and
/// what wakes them.
/// Thread: ring(from, to) is filled by `from` and emptied by `to`; all else is set before they run.
class Crossroads {
 public:
  using Ring = Mailbox<Handoff, kHandoffsMax>;

  explicit Crossroads(uint32_t worker_count)
      : count_(worker_count),
        rings_(new Ring[size_t{worker_count} * worker_count]),
        bells_(new Bell[worker_count]) {}

  uint32_t worker_count() const { return count_; }
  Ring& ring(uint32_t from, uint32_t to) { return rings_[size_t{from} * count_ + to]; }

  void set_bell(uint32_t worker, const Bell& bell) { bells_[worker] = bell; }
  /// Wakes a worker that was handed something, if it sleeps.
  void wake(uint32_t worker) {
    const Bell& bell = bells_[worker];
    if (bell.sleeps == nullptr || !channel::must_ring(*bell.sleeps)) return;
    (void)!eventfd_write(bell.fd, 1);
  }

 private:
  const uint32_t count_;
  std::unique_ptr<Ring[]> rings_;
  std::unique_ptr<Bell[]> bells_;
};

}  // namespace lyre::worker
