#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "stack/channel/abi.h"
#include "stack/worker/clients/domain_rules.h"
#include "stack/worker/mailbox.h"

namespace lyre::worker {

/// Contexts a daemon can serve at a time. A context has the same index on every worker, and its
/// arena is region number `index` there. Registered memory has the numbers that follow.
inline constexpr uint32_t kContextsMax = 1024;
inline constexpr uint32_t kRegionsMax = 1u << channel::kRegionIndexBits;
/// Captures of ports at a time, those included that workers have not answered kCaptureEnded for.
inline constexpr uint32_t kCapturesMax = 16;

class PortCapture;

/// What the control thread lets a client have, and all clients of its user together: workers show
/// it (`lyre clients`), and enforce none of it.
struct ClientLimits {
  uint32_t contexts_of_user = UINT32_MAX;
  uint64_t arena_bytes_of_user = UINT64_MAX;  ///< with rings and copy areas
  uint64_t registered_bytes = UINT64_MAX;
  uint64_t registered_bytes_of_user = UINT64_MAX;
  uint32_t regions = UINT32_MAX;
  uint32_t regions_of_user = UINT32_MAX;
};

/// What the control thread tells a worker. Owner: memory named here stays mapped until the worker
/// has answered kDetached, kRegionRemoved, or kCaptureEnded.
struct Command {
  enum class Kind : uint8_t {
    kNone,
    kAttach,
    kDetach,
    kShutdown,
    kAddRegion,
    kRemoveRegion,
    kLinkUp,        ///< the link of a port came up; not answered
    kBeginCapture,  ///< not answered
    kEndCapture,
  };
  Kind kind = Kind::kNone;
  uint8_t port = 0;           ///< kLinkUp, kBeginCapture, kEndCapture: index
  uint32_t context = 0;       ///< of a client's: index
  uint64_t generation = 0;    ///< kAttach: the context's; each is used once
  uint32_t region = 0;        ///< kAddRegion, kRemoveRegion: name
  uint8_t* memory = nullptr;  ///< kAttach: the context's memory; kAddRegion: the region's
  uint64_t memory_bytes = 0;  ///< kAttach, kAddRegion
  uint64_t page_bytes = 0;    ///< kAttach, kAddRegion: of the pages behind the memory
  uint64_t arena_offset = 0;
  uint64_t arena_bytes = 0;
  uint64_t copy_offset = 0;      ///< this worker's share of the copy area
  uint64_t copy_bytes = 0;       ///< 0: nothing can be copied for the client
  bool is_lent = true;           ///< receive slots may be lent to the client; else all is copied
  bool resets_sessions = false;  ///< kDetach; else they are closed, as by the client
  channel::RingPair* rings = nullptr;  ///< kAttach: the pair of this worker
  int wake_fd = -1;                    ///< kAttach: the end of a socket that wakes the client
  /// kAttach: how many workers have taken theirs; none: it is not counted.
  std::atomic<uint32_t>* attached_workers = nullptr;
  const DomainRules* domain = nullptr;  ///< kAttach: the client's; none: it may do everything
  PortCapture* capture = nullptr;       ///< kBeginCapture, kEndCapture: the worker's part of it
  ClientLimits limits;                  ///< kAttach
  int32_t pid = 0;
  uint32_t uid = 0;
  std::array<char, 32> label{};
};

/// What a worker tells the control thread.
struct Reply {
  enum class Kind : uint8_t {
    kNone,
    kDetached,       ///< nothing of the context is used any more: its memory may be freed
    kExpelled,       ///< the client broke a rule: disconnect it, then detach
    kShutDown,       ///< answer to kShutdown: every session was reset and every RST sent
    kRegionAdded,    ///< sends from the region are taken from now on
    kRegionRefused,  ///< answer to kAddRegion: it is not known here
    kRegionRemoved,  ///< nothing of the region is used any more: its memory may be freed
    kCaptureEnded,   ///< nothing of the capture is used any more: it may be freed
  };
  Kind kind = Kind::kNone;
  uint32_t context = 0;
  uint32_t region = 0;                   ///< of those about regions: name
  const char* reason = "";               ///< kExpelled: static text
  const PortCapture* capture = nullptr;  ///< kCaptureEnded
};

using Inbox = Mailbox<Command, 256>;
/// Holds all that a worker can owe: control_replies.cc counts it.
using Outbox = Mailbox<Reply, 2 * kRegionsMax>;

}  // namespace lyre::worker
