#include "libclient/sized_struct.h"

#include <algorithm>
#include <cstring>

#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"

namespace lyre::client {
namespace {

int read_size(const void* theirs, const char* name, uint64_t& out) {
  std::memcpy(&out, theirs, sizeof out);
  if (out >= kStructStep && out <= kStructBytesMax && out % kStructStep == 0) return 0;
  return fail(LYRE_E_INVALID, "%s.struct_bytes is %llu: set it to sizeof(%s)", name,
              static_cast<unsigned long long>(out), name);
}

}  // namespace

int read_sized_bytes(const void* theirs, void* ours, uint64_t ours_bytes, const char* name) {
  uint64_t theirs_bytes = 0;
  if (const int code = read_size(theirs, name, theirs_bytes); code != 0) return code;
  const auto* bytes = static_cast<const uint8_t*>(theirs);
  const uint64_t known_bytes = std::min(theirs_bytes, ours_bytes);
  const auto* unknown = std::find_if(bytes + known_bytes, bytes + theirs_bytes,
                                     [](uint8_t byte) { return byte != 0; });
  if (unknown != bytes + theirs_bytes) {
    return fail(LYRE_E_INVALID,
                "%s has %llu bytes and sets byte %llu; this library (%s) knows the first %llu",
                name, static_cast<unsigned long long>(theirs_bytes),
                static_cast<unsigned long long>(unknown - bytes), lyre_version(),
                static_cast<unsigned long long>(ours_bytes));
  }
  std::memset(ours, 0, ours_bytes);
  std::memcpy(ours, theirs, known_bytes);
  return 0;
}

int write_sized_bytes(const void* ours, uint64_t ours_bytes, void* theirs, const char* name) {
  uint64_t theirs_bytes = 0;
  if (const int code = read_size(theirs, name, theirs_bytes); code != 0) return code;
  auto* bytes = static_cast<uint8_t*>(theirs);
  const uint64_t known_bytes = std::min(theirs_bytes, ours_bytes);
  std::memcpy(bytes + kStructStep, static_cast<const uint8_t*>(ours) + kStructStep,
              known_bytes - kStructStep);
  std::memset(bytes + known_bytes, 0, theirs_bytes - known_bytes);
  return 0;
}

}  // namespace lyre::client
