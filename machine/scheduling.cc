#include "machine/scheduling.h"

#include <charconv>

namespace lyre::machine {

std::optional<uint32_t> runnable_threads(std::string_view loadavg) {
  for (int averages = 0; averages < 3; ++averages) {
    const size_t end = loadavg.find(' ');
    if (end == std::string_view::npos) return std::nullopt;
    loadavg.remove_prefix(end + 1);
  }
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(loadavg.data(), loadavg.data() + loadavg.size(), count);
  const bool is_count = error == std::errc{} && end != loadavg.data() + loadavg.size();
  if (!is_count || *end != '/') return std::nullopt;
  return count;
}

}  // namespace lyre::machine
