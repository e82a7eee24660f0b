#include "tools/lyre/size_text.h"

#include <cctype>
#include <charconv>
#include <string_view>

namespace lyre::tools {
namespace {

constexpr std::string_view kPrefixes = "kmgtpe";  // 2^10, 2^20 ...
constexpr unsigned kBitsPerPrefix = 10;

/// The power of two that `unit`, in lower case, stands for.
std::optional<unsigned> shift_of(std::string_view unit) {
  if (unit.empty() || unit == "b") return 0;
  const size_t prefix = kPrefixes.find(unit.front());
  const std::string_view rest = unit.substr(1);
  const bool is_unit = rest.empty() || rest == "b" || rest == "i" || rest == "ib";
  if (prefix == std::string_view::npos || !is_unit) return std::nullopt;
  return kBitsPerPrefix * (static_cast<unsigned>(prefix) + 1);
}

}  // namespace

std::optional<uint64_t> parse_size(const std::string& text) {
  uint64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc()) return std::nullopt;
  std::string unit;
  for (const char* c = at; c != end; ++c) {
    if (*c == ' ' && unit.empty()) continue;
    unit.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(*c))));
  }
  const std::optional<unsigned> shift = shift_of(unit);
  if (!shift || count > UINT64_MAX >> *shift) return std::nullopt;
  return count << *shift;
}

std::string size_text(uint64_t bytes) {
  size_t prefixes = 0;
  while (bytes != 0 && bytes % 1024 == 0 && prefixes < kPrefixes.size()) {
    bytes /= 1024;
    ++prefixes;
  }
  std::string text = std::to_string(bytes);
  if (prefixes > 0) {
    text += static_cast<char>(std::toupper(kPrefixes[prefixes - 1]));
    text += "iB";
  }
  return text;
}

}  // namespace lyre::tools
