#pragma once

#include <cstddef>
#include <cstdint>

#include "libclient/resources.h"

/// The object behind memory of this process, if another process can map it.
namespace lyre::client {

struct MemorySource {
  enum class Kind : uint8_t {
    kPrivate,         ///< no other process can map it; `why` has the reason
    kFile,            ///< `file` can be mapped
    kSharedAnonymous  ///< there is no descriptor to map
  };
  Kind kind = Kind::kPrivate;
  UniqueFd file;
  const char* why = "";
  bool may_pass = false;       ///< what `why` says
  uint64_t mapping_begin = 0;  ///< the mapping that holds the first byte
  uint64_t mapping_end = 0;
  uint64_t page_begin = 0;  ///< address of the first whole page
  uint64_t page_end = 0;    ///< of the byte after the last whole page
  uint64_t offset = 0;      ///< of the first page in the file or object
};

/// Finds the mappings of [data, data + bytes). Never fails: memory that cannot be examined counts
/// as private.
MemorySource find_source(const void* data, size_t bytes);

}  // namespace lyre::client
