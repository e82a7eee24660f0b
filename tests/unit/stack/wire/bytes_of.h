#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace lyre::wire {

inline uint8_t hex_digit(char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

/// "45 00 00 3c": the bytes that a packet dump shows.
inline std::vector<uint8_t> bytes_of(std::string_view dump) {
  std::vector<uint8_t> out;
  for (size_t at = 0; at + 1 < dump.size(); ++at) {
    if (dump[at] == ' ') continue;
    out.push_back(static_cast<uint8_t>(hex_digit(dump[at]) << 4 | hex_digit(dump[at + 1])));
    ++at;
  }
  return out;
}

}  // namespace lyre::wire
