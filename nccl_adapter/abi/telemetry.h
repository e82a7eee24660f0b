#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

/// What a process that uses the NCCL plugin shows of its comms: a file in shared memory, written by
/// the plugin a few times a second, read by `lyre comms` at any time. Reading does not disturb
/// the writer. Values may be anything: readers check them.
///
/// A job's image holds its own plugin: daemon, `lyre` and plugins of several releases are on one
/// host. docs/design/nccl_protocol.md has the rules by which the format changes.
namespace lyre::nccl_abi {

inline constexpr uint64_t kTelemetryMagic = 0x534d'4d4f'4345'5259ull;  // "YRECOMMS"
/// Of what is written here. Each change of the format raises it.
inline constexpr uint32_t kTelemetryVersion = 6;
/// The oldest reader that may use what is written here. It rises when a reader that does not know
/// the change would be wrong; one that ignores a new field is not.
inline constexpr uint32_t kTelemetryVersionMinReader = 5;
/// The oldest file that these declarations fit.
inline constexpr uint32_t kTelemetryVersionMin = 5;
inline constexpr uint32_t kTelemetrySlots = 2048;
/// LYRE_TELEMETRY_DIR moves it, and kNoTelemetry switches it off.
inline constexpr const char* kTelemetryDirectory = "/dev/shm";
inline constexpr const char* kNoTelemetry = "none";
/// A folder of the host that containers are given for it, as they have a /dev/shm of their own.
inline constexpr const char* kContainersTelemetryDirectory = "/dev/shm/lyre";
inline constexpr const char* kTelemetryPrefix = "lyre-comms-";
/// With what the names of a user's files begin. `uid` is that of the process in its user namespace.
/// Whose a file is, its owner tells and not its name: every user may write into the directory.
inline std::string telemetry_prefix(uint32_t uid) {
  return kTelemetryPrefix + std::to_string(uid) + "-";
}

/// Whom the oldest request of a comm waits for.
enum class WaitsFor : uint32_t {
  kNothing = 0,  ///< no request
  kNetwork,      ///< bytes under way that the peer's TCP has not acknowledged
  kPlacement,    ///< the peer's host has the bytes, its process has not placed them
  kCredit,       ///< the peer has posted no receive
  kData,         ///< the peer has sent nothing
  kStream,       ///< no connection at the moment
  kDaemon,       ///< this host's daemon is away
};
inline constexpr uint32_t kWaitsForCount = 7;

/// One comm. Texts end with a zero byte. Times are CLOCK_MONOTONIC. A new field follows the last
/// one, and its 0 means that it is not known.
struct CommView {
  uint8_t id[16];         ///< the same on both sides
  uint64_t communicator;  ///< NCCL's number for it (v11 on), else 0
  uint32_t is_sender;
  uint32_t has_failed;
  uint32_t peer_pid;
  WaitsFor waits_for;
  char peer_host[64];
  char peer_address[64];
  char path[96];  ///< of one stream, and how many go over other rails
  uint32_t streams;
  uint32_t streams_up;
  uint32_t requests;  ///< posted and not done
  /// Streams made again so far; it never falls. A receiver counts none that follows a reset of a
  /// stream beside its first one, because the sender may have given that up as no longer needed.
  uint32_t redials;
  uint64_t messages;  ///< done
  uint64_t bytes;     ///< of those
  uint64_t outstanding_bytes;
  uint64_t unacked_bytes;
  uint64_t again_bytes;     ///< sent a second time
  int64_t oldest_since_ns;  ///< 0: no request
  /// What the oldest request, or else the last one, is part of, where NCCL's profiler interface
  /// tells: "AllReduce". Empty, and -1 below: not known.
  char operation[16];
  int64_t operation_number;  ///< NCCL's, for each kind of collective by itself
  int32_t rank;
  int32_t peer_rank;
  int32_t channel;
  uint32_t queue_pairs_up;    ///< of RDMA devices, that carry data; they are streams, too
  uint64_t queue_pairs_lost;  ///< so far
  uint64_t copied_bytes;      ///< payload that this process copied, sent or received
  /// When this was written. The header's time also grows while no comm is written.
  int64_t written_ns;
};
static_assert(sizeof(CommView) == 392);

/// A place for one: odd while it is written.
struct CommSlot {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> is_used;
  CommView view;
};

/// A new field follows the last one, and its 0 means that it is not known.
struct TelemetryHeader {
  uint64_t magic;    ///< this field and the next two are the same in every version
  uint32_t version;  ///< the writer's
  uint32_t version_min_reader;
  uint32_t slots;
  uint32_t slot_bytes;
  uint32_t pid;
  /// CLOCK_MONOTONIC. The process of an old file has ended or, where the file is locked, is
  /// stopped.
  std::atomic<int64_t> written_ns;
  char host[64];
  char program[32];
  char socket[108];
  std::atomic<uint64_t> foreign;          ///< foreign connections to the plugin's port
  char last_foreign[64];                  ///< may be read while it changes
  char verbs[200];                        ///< RDMA ports and why not, when it attached; empty: none
  std::atomic<uint32_t> comms_not_shown;  ///< for which there is no slot
};

/// Zeros fill the place behind the header.
inline constexpr size_t kTelemetrySlotsOffset = 1024;
static_assert(offsetof(TelemetryHeader, version) == 8);
static_assert(offsetof(TelemetryHeader, version_min_reader) == 12);
static_assert(sizeof(TelemetryHeader) <= kTelemetrySlotsOffset);
inline constexpr size_t kTelemetryBytes =
    kTelemetrySlotsOffset + size_t{kTelemetrySlots} * sizeof(CommSlot);

/// No version has more slots or a larger file. The first limits how long a reader takes for a file,
/// the second how much memory its removal frees.
inline constexpr uint32_t kTelemetrySlotsMax = 4096;
inline constexpr size_t kTelemetryBytesMax = size_t{4} << 20;
static_assert(kTelemetrySlots <= kTelemetrySlotsMax && kTelemetryBytes <= kTelemetryBytesMax);

/// Whether a file of the plugin, of any version, may have that size.
constexpr bool is_telemetry_size(uint64_t bytes) {
  return bytes >= kTelemetrySlotsOffset && bytes <= kTelemetryBytesMax;
}
/// Whether these declarations fit the file that `header` begins.
inline bool is_telemetry_known(const TelemetryHeader& header) {
  return header.version >= kTelemetryVersionMin && header.version_min_reader <= kTelemetryVersion;
}
/// Whether all slots of a file of `bytes` are within it and have a CommSlot's first fields.
/// REQUIRES: is_telemetry_size(bytes).
inline bool are_telemetry_slots_within(const TelemetryHeader& header, uint64_t bytes) {
  return header.slots <= kTelemetrySlotsMax && header.slot_bytes >= offsetof(CommSlot, view) &&
         uint64_t{header.slots} * header.slot_bytes <= bytes - kTelemetrySlotsOffset;
}

/// Thread: one writer a slot. Readers take sequence, view and sequence again with pread(), and
/// use the view if the number was even and is the same afterwards; the fence and the last store
/// keep the writer's three steps in order for them.
inline void write_slot(CommSlot* slot, const CommView& view) {
  const uint32_t before = slot->sequence.load(std::memory_order_relaxed);
  slot->sequence.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(&slot->view, &view, sizeof view);
  slot->sequence.store(before + 2, std::memory_order_release);
}

}  // namespace lyre::nccl_abi
