#pragma once

#include <cstddef>
#include <cstdint>

#include "libclient/resources.h"

/// Where a piece of this process's memory comes from, as far as another process could map it too.
namespace lyre::client {

struct MemorySource {
  enum class Kind : uint8_t {
    kPrivate,         ///< nobody else can map it; `why` says so
    kFile,            ///< `file` names what can be mapped
    kSharedAnonymous  ///< without a descriptor
  };
  Kind kind = Kind::kPrivate;
  UniqueFd file;
  const char* why = "";
  uint64_t mapping_begin = 0;  ///< the mapping that holds the first byte
  uint64_t mapping_end = 0;
  uint64_t page_begin = 0;  ///< address of the first whole page
  uint64_t page_end = 0;    ///< and behind the last
  uint64_t offset = 0;      ///< of the first page in the file or object
};

/// Looks at the mappings behind [data, data + bytes). Never fails: what cannot be found out counts
/// as private.
MemorySource find_source(const void* data, size_t bytes);

}  // namespace lyre::client
