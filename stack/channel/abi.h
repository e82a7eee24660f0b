#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "stack/base/ip_address.h"
#include "stack/channel/versions.h"

/// The shared memory between the daemon and one client context. It has a version first, and offsets
/// instead of pointers. Either side must treat the other's writes as untrusted: copy an entry once,
/// check the copy, use the copy. docs/design/channel_abi.md explains it; this file defines it.
namespace lyre::channel {

inline constexpr uint64_t kContextMagic = 0x3158'5443'4552'594c;  // "LYRECTX1", little endian
inline constexpr VersionRange kAbiVersions{6, 7};
inline constexpr size_t kCacheLineBytes = 64;

inline constexpr uint32_t kWorkersMax = 64;
inline constexpr uint32_t kSubmissionEntries = 1024;  ///< a power of two
inline constexpr uint32_t kCompletionEntries = 1024;  ///< a power of two
inline constexpr uint64_t kArenaBytesMax = uint64_t{4} << 30;
inline constexpr uint64_t kArenaBytesDefault = uint64_t{64} << 20;
/// The maximum of unfinished kSend descriptors of one session, and of one context. A client that
/// exceeds it is disconnected.
inline constexpr uint32_t kSendsOutstandingMax = 256;
inline constexpr uint32_t kSendsPerContextMax = 16384;
inline constexpr uint32_t kSendBytesMax = 4u << 20;  ///< of one send descriptor

/// Registered memory: the maximum number of regions of a daemon, and of one client. kSend
/// identifies a region by a name: its index in the low bits, and above them the number of times
/// that the index was used, so that the name of a removed region never matches the next one. Name 0
/// is the context's arena.
inline constexpr uint32_t kRegionIndexBits = 13;
inline constexpr uint32_t kRegionsPerContextMax = 4608;
constexpr uint32_t region_index(uint32_t name) { return name & ((1u << kRegionIndexBits) - 1); }

/// Identifies a session on both sides, within the context and the worker that created it.
/// `generation` changes each time the index is reused, so that an old name never matches a new
/// session.
struct SessionName {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;
  friend constexpr bool operator==(SessionName, SessionName) = default;
};

/// Client to worker.
enum class Op : uint8_t {
  kNone = 0,
  kConnect,      ///< body.open: local (may be unspecified) and remote
  kListen,       ///< body.open: local; backlog
  kCloseListen,  ///< session names the listener
  kSend,         ///< body.send
  kRelease,      ///< body.release: returns lent slots
  kShutdown,     ///< no more sends; FIN after the queued data
  kClose,        ///< graceful: queued bytes are still sent, the name is invalid at once
  kAbort,        ///< RST; the name is invalid at once
  kSetOption,    ///< body.option
};

/// The options that kSetOption can change. Values are 32 bits; times are in milliseconds.
enum class SessionOption : uint32_t {
  kNodelay,              ///< 0: Nagle: a small segment waits while data is unacknowledged
  kCork,                 ///< not 0: only full segments are sent, for some 200 ms at most
  kQuickAck,             ///< not 0: no acknowledgement is delayed
  kUserTimeoutMs,        ///< data unacknowledged for so long ends the session; at least 1
  kKeepaliveIdleMs,      ///< silence before the first probe; 0: no probes
  kKeepaliveIntervalMs,  ///< between probes; at least 1
  kKeepaliveProbes,      ///< so many unanswered probes end the session; 1 to kKeepaliveProbesMax
  kDscp,                 ///< of its IP packets; at most 63
  kHopLimit,             ///< of its IP packets; 1 to 255
  kCount,
};
inline constexpr uint32_t kKeepaliveProbesMax = 127;

/// The library refuses other values. A worker disconnects a client that submits one all the same.
constexpr bool is_allowed(SessionOption option, uint32_t value) {
  switch (option) {
    case SessionOption::kNodelay:
    case SessionOption::kCork:
    case SessionOption::kQuickAck:
    case SessionOption::kKeepaliveIdleMs:
      return true;
    case SessionOption::kUserTimeoutMs:
    case SessionOption::kKeepaliveIntervalMs:
      return value > 0;
    case SessionOption::kKeepaliveProbes:
      return value > 0 && value <= kKeepaliveProbesMax;
    case SessionOption::kDscp:
      return value <= 63;
    case SessionOption::kHopLimit:
      return value > 0 && value <= 255;
    case SessionOption::kCount:
      break;
  }
  return false;
}

inline constexpr uint32_t kReleaseSlotsMax = 10;

/// One submission. `op` determines which member of `body` is valid.
struct alignas(kCacheLineBytes) Submission {
  Op op = Op::kNone;
  uint8_t count = 0;     ///< kRelease: valid slots
  uint16_t backlog = 0;  ///< kListen
  /// kSend, kRelease: payload bytes that the client itself copied, before sending or after
  /// receiving, and has not reported yet. Statistics only: no decision depends on it.
  uint32_t copied_bytes = 0;
  SessionName session;  ///< kRelease: the session of `copied_bytes`; slots may be of any session
  union Body {
    struct Open {
      uint64_t cookie;  ///< the client's own identifier, returned in the answer
      uint8_t local_address[16];
      uint8_t remote_address[16];
      uint16_t local_port;  ///< host order; 0: the worker chooses
      uint16_t remote_port;
    } open;
    struct Send {
      uint32_t region;  ///< 0: the arena; else the name from the registration
      uint32_t bytes;
      uint64_t offset;
    } send;
    struct Release {
      uint32_t slots[kReleaseSlotsMax];
    } release;
    struct Option {
      SessionOption name;
      uint32_t value;
    } option;
    uint8_t raw[48];
  } body{};
};
static_assert(sizeof(Submission) == 64 && std::is_trivially_copyable_v<Submission>);

/// Worker to client.
enum class Event : uint8_t {
  kNone = 0,
  kConnecting,     ///< body.opened: kConnect is in progress; session is its name for kAbort
  kConnected,      ///< body.opened: answer to kConnect; session is its name from now on
  kConnectFailed,  ///< body.opened.cookie; status is the reason
  kListening,      ///< body.opened: answer to kListen; session names the listener
  kListenFailed,   ///< body.opened.cookie; status is the reason
  kAccepted,       ///< body.opened: a new session; cookie is that of the listener
  kSendDone,       ///< body.send_done; status: kOk, or the error that dropped sends it counts
  kData,           ///< body.data: lent payload, in order
  kPeerFinished,   ///< after all kData: the peer sent its FIN
  kEnded,  ///< the session is over; status is the reason. Its lent slots stay valid until released
};

/// Why an operation failed or a session ended: the absolute values of the negative codes of lyre.h.
enum class EndStatus : uint8_t {
  kOk = 0,
  kReset = 1,
  kRefused = 2,
  kTimedOut = 3,
  kUnreachable = 4,
  kAddressInUse = 5,
  kAddressUnknown = 6,  ///< not an address of this host
  kNoResources = 7,
  kAborted = 8,
  kShutdown = 9,       ///< the daemon is stopping
  kDeregistered = 10,  ///< memory was deregistered that the peer had not acknowledged
  // Kinds of kUnreachable. In Completion::exact only: libraries take what they do not know in
  // Completion::status for kReset.
  kNoRoute = 11,
  kNoNeighbour = 12,  ///< neither the peer nor the gateway answers ARP or NDP
  kForbidden = 13,    ///< the client's domain may not talk to that peer, or not from that port
  kIcmpError = 14,    ///< while connecting, or before a timeout
  kAddressLost = 15,  ///< another host has the local address
};

/// What libraries of every version know of it.
constexpr EndStatus general(EndStatus status) {
  return status > EndStatus::kDeregistered ? EndStatus::kUnreachable : status;
}

/// A range of received payload that is lent to the client.
struct LentSlice {
  uint32_t slot;  ///< to be released by kRelease, once per slice
  uint32_t bytes;
  uint64_t offset;  ///< from the start of the pool's memory
};
inline constexpr uint32_t kLentSlicesMax = 3;

/// The `pool` of a slice that was copied into the context's own memory instead of being lent from a
/// receive pool. Its offset is then an offset into the context memory.
inline constexpr uint8_t kPoolContext = 0xff;

struct alignas(kCacheLineBytes) Completion {
  Event event = Event::kNone;
  EndStatus status = EndStatus::kOk;
  uint8_t pool = 0;   ///< kData: worker index of the pool, or kPoolContext
  uint8_t count = 0;  ///< kData: valid slices
  /// `status`, or a kind of it. kOk: nothing more is known, as of older daemons.
  EndStatus exact = EndStatus::kOk;
  uint8_t reserved[3] = {};
  SessionName session;
  union Body {
    struct Opened {
      uint64_t cookie;
      uint8_t local_address[16];
      uint8_t remote_address[16];
      uint16_t local_port;
      uint16_t remote_port;
    } opened;
    struct SendDone {
      uint64_t descriptors;  ///< kSend descriptors of this session finished since it was opened
      uint32_t acked_bytes;  ///< of the next descriptor
      uint32_t rtt_min_us;   ///< windowed minimum RTT; 0: no sample yet
      uint32_t rto_us;       ///< retransmission timeout (RFC 6298), as TCP uses it next
      /// Version 7: not 0 while the peer has no room and answers window probes.
      uint32_t is_window_closed;
    } send_done;
    LentSlice data[kLentSlicesMax];
    uint8_t raw[48];
  } body{};
};
static_assert(sizeof(Completion) == 64 && std::is_trivially_copyable_v<Completion>);

/// The indices of one single-producer single-consumer ring. The entries follow them.
struct RingIndices {
  alignas(kCacheLineBytes) std::atomic<uint32_t> tail;  ///< written by the producer only
  alignas(kCacheLineBytes) std::atomic<uint32_t> head;  ///< written by the consumer only
};
static_assert(sizeof(RingIndices) == 128 && std::atomic<uint32_t>::is_always_lock_free);

/// The rings between one context and one worker.
struct RingPair {
  RingIndices submission_indices;
  Submission submissions[kSubmissionEntries];
  RingIndices completion_indices;
  Completion completions[kCompletionEntries];
};
static_assert(offsetof(RingPair, submissions) == 128);

/// The first kHeaderBytes of a context's memory. It grows at its end: a daemon creates all of these
/// bytes as zeros, and 0 in a field that is newer than the daemon has a meaning.
struct ContextHeader {
  uint64_t magic;
  uint32_t abi_version;  ///< the one that this context uses
  uint32_t worker_count;
  uint64_t generation;    ///< different for each context that a daemon ever made
  uint64_t total_bytes;   ///< of the whole memory
  uint64_t rings_offset;  ///< RingPair[worker_count]
  uint64_t arena_offset;
  uint64_t arena_bytes;
  uint64_t copy_offset;  ///< CopyArea: payload for clients without lent memory
  uint64_t copy_bytes;   ///< 0 when payload is lent

  /// Written by the client: nonzero from before it sleeps on its doorbell until after it woke up.
  alignas(kCacheLineBytes) std::atomic<uint32_t> client_sleeps;

  /// Written by a worker: nonzero before the first slot that the client did not give back is used
  /// for other packets. Bytes that the client read from lent slots count only if it reads 0 here
  /// after them. 0 also from daemons that do not write it.
  alignas(kCacheLineBytes) std::atomic<uint32_t> revoked;
};
static_assert(sizeof(ContextHeader) <= 4096);
inline constexpr uint64_t kHeaderBytes = 4096;

/// One cache line a worker, in a memory that every client maps read-only.
struct alignas(kCacheLineBytes) WorkerDoorbell {
  /// Written by the worker: nonzero from before it sleeps on its doorbells until after it woke up.
  std::atomic<uint32_t> worker_sleeps;
  /// Written by the worker: nonzero while it moves large messages and the host has more runnable
  /// threads than processors. A client that polls takes a processor from one of them.
  std::atomic<uint32_t> is_crowded;
};
static_assert(sizeof(WorkerDoorbell) == 64);

}  // namespace lyre::channel
