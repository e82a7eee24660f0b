#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "stack/base/ip_address.h"
#include "stack/base/mapped_array.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/channel/ring.h"
#include "stack/io/packet.h"
#include "stack/link/ndp.h"
#include "stack/wire/arp.h"
#include "stack/worker/mailbox.h"

namespace lyre::io {
class PacketMemory;
}

namespace lyre::worker {

/// What one worker sends another.
struct WorkerMessage {
  enum class Kind : uint8_t {
    kNone,
    kFindOwner,  ///< to the home of `tuple`: a packet whose connection its receiver does not have
    kDeliver,    ///< to the owner of `tuple`: that packet
    kNotFound,   ///< back to the receiver: no worker has the connection; the packet is its own
    kRelease,    ///< back to the receiver: the packet was copied or dropped
    kClaim,      ///< to the home of `tuple`: the sender has that connection from now on
    kClaimRefused,  ///< back to the sender of a claim: another worker has that connection
    kUnclaim,       ///< to the home of `tuple`: the sender does not have that connection any more
    kMigrate,       ///< back to the receiver: the connection itself, and the SYN-ACK it waits for
    kNeighbourUpdate,  ///< to the other workers that it concerns: an ARP or NDP packet arrived
  };
  /// A connection in SYN-SENT that moves.
  struct Migration {
    uint32_t context = 0;
    uint64_t context_generation = 0;
    uint64_t cookie = 0;
    Nanos opened_at;
  };
  struct ArpUpdate {
    uint8_t port = 0;
    wire::ArpPacket packet;
  };
  struct NdpUpdate {
    uint8_t port = 0;
    link::NdpArrival arrival;
  };
  using Body = std::variant<std::monostate, Migration, ArpUpdate, NdpUpdate>;

  Kind kind = Kind::kNone;
  uint8_t receiver = 0;             ///< worker that received the packet, and whose memory it is in
  bool may_be_refused = false;      ///< of kClaim: a client opens the connection
  io::PacketBuf* packet = nullptr;  ///< of the first four and kMigrate
  /// Of kFindOwner and kDeliver: what the packet acknowledges if it is a SYN-ACK.
  std::optional<SeqNum> syn_acked;
  FourTuple tuple;  ///< of all but kNeighbourUpdate
  Body body{};      ///< of kMigrate and kNeighbourUpdate
};

inline constexpr uint32_t kWorkerMessagesMax = 512;  ///< of one ring; a power of two
/// 64 workers have 4096 rings: 336 MiB (docs/user/operations.md, "Sizing").
static_assert(sizeof(WorkerMessage) <= 168);

/// How a sleeping worker is woken. Thread: any may read `sleeps` and write to `fd`.
struct Doorbell {
  const std::atomic<uint32_t>* sleeps = nullptr;  ///< nonzero: the worker sleeps, or is about to
  int fd = -1;                                    ///< an eventfd
};

/// A ring from each worker of a daemon to each other one, and a ring to itself. The places of rings
/// take memory when they are first used, from the node of the worker that fills them.
/// Thread: ring(from, to) is filled by `from` and emptied by `to`; doorbells and memories are set
/// before the workers run.
class InterWorkerRings {
 public:
  using Ring = Mailbox<WorkerMessage, kWorkerMessagesMax, LentPlaces<WorkerMessage>>;

  explicit InterWorkerRings(uint32_t worker_count)
      : count_(worker_count),
        places_(size_t{worker_count} * worker_count * kWorkerMessagesMax),
        rings_(new Ring[size_t{worker_count} * worker_count]),
        doorbells_(new Doorbell[worker_count]),
        memories_(worker_count) {
    WorkerMessage* next = places_.data();
    for (uint32_t from = 0; from < count_; ++from) {
      for (uint32_t to = 0; to < count_; ++to, next += kWorkerMessagesMax) {
        ring(from, to).places().items = next;
      }
    }
  }

  uint32_t worker_count() const { return count_; }
  /// Those to one worker lie side by side: it looks at all of them in each turn.
  Ring& ring(uint32_t from, uint32_t to) { return rings_[size_t{to} * count_ + from]; }

  void set_doorbell(uint32_t worker, const Doorbell& doorbell) { doorbells_[worker] = doorbell; }
  /// `memory`: *borrowed*; that of the packets which `worker` receives.
  void set_memory(uint32_t worker, io::PacketMemory& memory) { memories_[worker] = &memory; }
  io::PacketMemory& memory_of(uint32_t worker) const { return *memories_[worker]; }
  /// Wakes a worker that was sent something, if it sleeps.
  void wake(uint32_t worker) {
    const Doorbell& doorbell = doorbells_[worker];
    if (doorbell.sleeps == nullptr || !channel::must_ring(*doorbell.sleeps)) return;
    (void)!eventfd_write(doorbell.fd, 1);
  }

 private:
  const uint32_t count_;
  MappedArray<WorkerMessage> places_;  ///< those that one worker fills lie side by side
  std::unique_ptr<Ring[]> rings_;
  std::unique_ptr<Doorbell[]> doorbells_;
  std::vector<io::PacketMemory*> memories_;
};

}  // namespace lyre::worker
