#pragma once

#include <cstdint>
#include <type_traits>

/// Structs of lyre.h that begin with their size. The caller's may be shorter than the library's (a
/// program that was compiled with an older header) or longer (a newer header).
namespace lyre::client {

/// All of them have 8-byte fields first and last, so a size is a multiple of this.
inline constexpr uint64_t kStructStep = 8;
/// No header makes a larger one: such a size was not set by the caller.
inline constexpr uint64_t kStructBytesMax = 4096;

/// Copies the caller's struct to `ours`, which becomes 0 where the caller's ends. `name` is the
/// type's. Fails: LYRE_E_INVALID for a size that cannot be, or when bytes that this library does
/// not know are not 0.
int read_sized_bytes(const void* theirs, void* ours, uint64_t ours_bytes, const char* name);
/// Copies `ours` to the caller's struct, up to its struct_bytes, which it keeps. What is longer
/// than ours becomes 0. Fails: as above.
int write_sized_bytes(const void* ours, uint64_t ours_bytes, void* theirs, const char* name);

template <typename Struct>
int read_sized(const Struct* theirs, Struct& ours, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct> && sizeof(Struct) % kStructStep == 0);
  return read_sized_bytes(theirs, &ours, sizeof ours, name);
}

template <typename Struct>
int write_sized(const Struct& ours, Struct* theirs, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct> && sizeof(Struct) % kStructStep == 0);
  if (theirs->struct_bytes == sizeof ours) {
    *theirs = ours;
    theirs->struct_bytes = sizeof ours;
    return 0;
  }
  return write_sized_bytes(&ours, sizeof ours, theirs, name);
}

}  // namespace lyre::client
