#pragma once

#include <cstddef>
#include <cstdint>

/// What the daemon and its memory helper say to each other over a SOCK_SEQPACKET pair: one struct a
/// packet, native byte order, descriptors by SCM_RIGHTS. A packet has at most one descriptor in
/// every version. During an upgrade the two are of different releases. Later versions append
/// fields. MappingHeader and MappingAction::kReplace are the same in every version. A request that
/// the helper does not know is answered with EPROTO. The daemon takes from a longer reply what it
/// knows, and zeros for what a shorter one lacks.
namespace lyre {

inline constexpr uint16_t kMappingVersion = 1;
/// Requests that the helper carries out at a time.
inline constexpr size_t kMappingRequestsMax = 16;
/// A request that takes longer is ended, and fails.
inline constexpr unsigned kMappingRequestSecondsMax = 1;
/// `id` of what concerns the helper itself, not a mapping.
inline constexpr uint64_t kMappingHelperId = 0;

enum class MappingAction : uint32_t {
  kOpen = 1,     ///< MappingRequest, with one descriptor: the daemon's end of a client's connection
  kReplace = 2,  ///< a header with kMappingHelperId: execute the program at the helper's path
};

struct MappingHeader {
  uint16_t version;
  uint16_t bytes;  ///< of the whole request
  MappingAction action;
  uint64_t id;
};

struct MappingRequest {
  MappingHeader header;
  uint64_t begin;
  uint64_t end;
};

/// With one descriptor when `error` is 0: the object behind the mapping, readable and writable.
/// A helper that starts says its release: kMappingHelperId, no error, no descriptor. With an error,
/// kMappingHelperId means that it was not replaced, or was sent less than a header, and why.
/// `version` and `bytes` are for later daemons; this one goes by the packet's length.
struct MappingReply {
  uint16_t version;
  uint16_t bytes;
  int32_t error;  ///< an errno value
  uint64_t id;
  char text[120];
};

}  // namespace lyre
