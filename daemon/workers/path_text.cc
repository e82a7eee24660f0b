#include "daemon/workers/path_text.h"

#include <algorithm>

// Weak: a program that is not linked by packet_path.ld has no such symbols.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const std::byte lyre_packet_path_begin[];
[[gnu::weak, gnu::visibility("hidden")]] extern const std::byte lyre_packet_path_end[];
}

namespace lyre {

namespace {
constexpr size_t kLineBytes = 64;
}  // namespace

PathText PathText::of_program() { return PathText({lyre_packet_path_begin, lyre_packet_path_end}); }

void PathText::fetch_some() {
  const std::span<const std::byte> piece = next();
  for (size_t i = 0; i < piece.size(); i += kLineBytes) __builtin_prefetch(&piece[i]);
  at_ += piece.size();
  if (at_ == text_.size()) at_ = 0;
}

std::span<const std::byte> PathText::next() const {
  return text_.subspan(at_, std::min(kBytesAtOnce, text_.size() - at_));
}

}  // namespace lyre
