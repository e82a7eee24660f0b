#include "machine/scheduling.h"

#include <charconv>
#include <string>
#include <vector>

namespace lyre::machine {

namespace {

/// The name in "/autogroup-17 nice 0".
std::string autogroup_of(const Roots& roots, const std::string& process) {
  const std::vector<std::string> found = words(first_line(roots.proc + process + "/autogroup"));
  return found.empty() ? "" : found.front();
}

}  // namespace

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

bool is_of_own_group(const Roots& roots, int32_t pid) {
  if (pid <= 0) return false;
  const std::string process = "/" + std::to_string(pid);
  const std::vector<std::string> own = lines(roots.proc + "/self/cgroup");
  if (own.empty() || own != lines(roots.proc + process + "/cgroup")) return false;
  const bool groups_sessions =
      number(roots.proc + "/sys/kernel/sched_autogroup_enabled").value_or(0) != 0;
  return !groups_sessions || autogroup_of(roots, "/self") == autogroup_of(roots, process);
}

}  // namespace lyre::machine
