#pragma once

#include <cstddef>

/// What `lyre doctor` reads of a file that belongs to a job; the rest is not looked at.
namespace lyre::tools {

/// Of an environment (at most 6 MiB for execve(2)), a list of mappings, and files in /etc.
inline constexpr size_t kTextFileBytesMax = size_t{8} << 20;
/// Of the C library and of plugins, which have a few MiB.
inline constexpr size_t kLibraryBytesMax = size_t{64} << 20;

}  // namespace lyre::tools
