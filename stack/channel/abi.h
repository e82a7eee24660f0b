#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "stack/base/ip_address.h"

/// The shared memory between the daemon and one client context: a file format, version first,
/// offsets instead of pointers. The other side may lie: copy an entry once, check, use the copy.
/// This file is the definition; docs/design/channel_abi.md explains it.
namespace lyre::channel {

inline constexpr uint64_t kContextMagic = 0x3158'5443'4552'594c;  // "LYRECTX1", little endian
inline constexpr uint32_t kAbiVersion = 5;
inline constexpr size_t kCacheLineBytes = 64;

inline constexpr uint32_t kWorkersMax = 64;
inline constexpr uint32_t kSubmissionEntries = 1024;  ///< a power of two
inline constexpr uint32_t kCompletionEntries = 1024;  ///< a power of two
inline constexpr uint64_t kArenaBytesMax = uint64_t{4} << 30;
inline constexpr uint64_t kArenaBytesDefault = uint64_t{64} << 20;
/// kSend descriptors of one session, and of one context, that may be unfinished at a time; a client
/// that sends more is disconnected.
inline constexpr uint32_t kSendsOutstandingMax = 256;
inline constexpr uint32_t kSendsPerContextMax = 16384;
inline constexpr uint32_t kSendBytesMax = 4u << 20;  ///< of one send descriptor

/// Registered memory: a daemon knows this many regions, and no client may have more than its share.
/// In kSend a region is named by its index in the low bits and the number of its use above, so that
/// a name that is no more never hits the next owner of the index. Name 0 is the context's arena.
inline constexpr uint32_t kRegionIndexBits = 13;
inline constexpr uint32_t kRegionsPerContextMax = 4608;
constexpr uint32_t region_index(uint32_t name) { return name & ((1u << kRegionIndexBits) - 1); }

/// Names a session for both sides: valid in the context and on the worker it came from.
/// `generation` changes each time the index is used again, so that an old name never hits a new
/// one.
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
  kRelease,      ///< body.release: lent slots come back
  kShutdown,     ///< no more sends; FIN after what is queued
  kClose,        ///< graceful: queued bytes still go out, the name is dead at once
  kAbort,        ///< RST, the name is dead at once
  kSetOption,    ///< body.option
};

/// What kSetOption may change. Values are 32 bits; times in milliseconds.
enum class SessionOption : uint32_t {
  kNodelay,          ///< 0: small pieces wait while others are unacknowledged (Nagle)
  kCork,             ///< not 0: only full segments leave, until it is pulled or some 200 ms pass
  kQuickAck,         ///< not 0: no acknowledgement is delayed
  kUserTimeoutMs,    ///< unacknowledged so long ends the session; at least 1
  kKeepaliveIdleMs,  ///< silence before the first probe; 0: no probes
  kKeepaliveIntervalMs,  ///< between probes; at least 1
  kKeepaliveProbes,      ///< so many unanswered end the session; 1 to kKeepaliveProbesMax
  kCount,
};
inline constexpr uint32_t kKeepaliveProbesMax = 127;

/// The library refuses what is not allowed; a worker expels who asks for it all the same.
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
    case SessionOption::kCount:
      break;
  }
  return false;
}

inline constexpr uint32_t kReleaseSlotsMax = 10;

/// One submission. The meaning of `body` follows from `op`.
struct alignas(kCacheLineBytes) Submission {
  Op op = Op::kNone;
  uint8_t count = 0;     ///< kRelease: valid slots
  uint16_t backlog = 0;  ///< kListen
  /// kSend, kRelease: payload that the client itself copied, before sending or after receiving, and
  /// has not told of yet. For people to see: nothing rests on it.
  uint32_t copied_bytes = 0;
  SessionName session;  ///< kRelease: whose copies those were; the slots may be any session's
  union Body {
    struct Open {
      uint64_t cookie;  ///< the client's own name, echoed in the answer
      uint8_t local_address[16];
      uint8_t remote_address[16];
      uint16_t local_port;  ///< host order; 0: the worker chooses
      uint16_t remote_port;
    } open;
    struct Send {
      uint32_t region;  ///< 0: the arena; else the name that registration gave
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
  kConnecting,     ///< body.opened: kConnect is under way; session names it for kAbort
  kConnected,      ///< body.opened: answer to kConnect; session is its name from now on
  kConnectFailed,  ///< body.opened.cookie; status says why
  kListening,      ///< body.opened: answer to kListen; session names the listener
  kListenFailed,   ///< body.opened.cookie; status says why
  kAccepted,       ///< body.opened: a new session; cookie is that of the listener
  kSendDone,       ///< body.send_done: how far the peer's TCP has acknowledged
  kData,           ///< body.data: lent payload, in order
  kPeerFinished,   ///< after all kData: the peer sends no more
  kEnded,  ///< the session is over; status says why. Its lent slots stay valid until released
};

/// Why something failed or ended: negative codes of lyre.h, here as their absolute values.
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
};

/// A piece of payload lent to the client.
struct LentSlice {
  uint32_t slot;  ///< give this back with kRelease, once per slice
  uint32_t bytes;
  uint64_t offset;  ///< from the start of the pool's memory
};
inline constexpr uint32_t kLentSlicesMax = 3;

/// `pool` of a slice that was copied into the context's own memory instead of being lent from a
/// receive pool: the offset is then one into the context memory.
inline constexpr uint8_t kPoolContext = 0xff;

struct alignas(kCacheLineBytes) Completion {
  Event event = Event::kNone;
  EndStatus status = EndStatus::kOk;
  uint8_t pool = 0;   ///< kData: worker index of the pool, or kPoolContext
  uint8_t count = 0;  ///< kData: valid slices
  uint32_t reserved = 0;
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
      uint32_t acked_bytes;  ///< of the next one
      uint32_t rtt_min_us;   ///< the least round trip of late; 0: none was measured
    } send_done;
    LentSlice data[kLentSlicesMax];
    uint8_t raw[48];
  } body{};
};
static_assert(sizeof(Completion) == 64 && std::is_trivially_copyable_v<Completion>);

/// Indices of one single-producer single-consumer ring; the entries follow.
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

/// First page of a context's memory.
struct ContextHeader {
  uint64_t magic;
  uint32_t abi_version;
  uint32_t worker_count;
  uint64_t generation;    ///< different for each context a daemon ever made
  uint64_t total_bytes;   ///< of the whole memory
  uint64_t rings_offset;  ///< RingPair[worker_count]
  uint64_t arena_offset;
  uint64_t arena_bytes;
  uint64_t copy_offset;  ///< CopyArea: where the daemon copies for clients it does not lend to
  uint64_t copy_bytes;   ///< 0 when payload is lent

  /// Written by the client: nonzero while it sleeps, or is about to, on its bell.
  alignas(kCacheLineBytes) std::atomic<uint32_t> client_sleeps;
};
static_assert(sizeof(ContextHeader) <= 4096);
inline constexpr uint64_t kHeaderBytes = 4096;

/// One line a worker, in a memory that every client maps read-only.
struct alignas(kCacheLineBytes) WorkerDoorbell {
  /// Written by the worker: nonzero while it sleeps, or is about to, on its bells.
  std::atomic<uint32_t> worker_sleeps;
};
static_assert(sizeof(WorkerDoorbell) == 64);

}  // namespace lyre::channel
