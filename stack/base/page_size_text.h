#pragma once

#include <cstdint>
#include <string>

namespace lyre {

/// "2 MiB": the size of a page of so many KiB, for people.
inline std::string page_size_text(uint64_t kib) {
  constexpr uint64_t kKibPerMib = 1024;
  constexpr uint64_t kKibPerGib = 1024 * 1024;
  if (kib % kKibPerGib == 0) return std::to_string(kib / kKibPerGib) + " GiB";
  if (kib % kKibPerMib == 0) return std::to_string(kib / kKibPerMib) + " MiB";
  return std::to_string(kib) + " KiB";
}

}  // namespace lyre
