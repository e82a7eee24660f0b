#pragma once

#include <cstddef>
#include <cstdint>

/// What the daemon and its memory helper say to each other over a SOCK_SEQPACKET pair: one struct a
/// packet, native byte order, descriptors by SCM_RIGHTS.
namespace lyre {

/// Requests that the helper carries out at a time.
inline constexpr size_t kMappingRequestsMax = 16;
/// A request that takes longer is ended, and fails.
inline constexpr unsigned kMappingRequestSecondsMax = 1;

/// With one descriptor: the daemon's end of the client's connection.
struct MappingRequest {
  uint64_t id;
  uint64_t begin;
  uint64_t end;
};

/// With one descriptor when `error` is 0: the object behind the mapping, readable and writable.
struct MappingReply {
  uint64_t id;
  int32_t error;  ///< an errno value
  char text[124];
};

}  // namespace lyre
