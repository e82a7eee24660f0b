#include "machine/scheduling.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

namespace lyre::machine {

namespace {

/// A line of /proc/PID/cgroup, as "4:cpu,cpuacct:/path"; without controllers: of cgroup v2.
struct Membership {
  std::string controllers;
  std::string path;
};

std::optional<Membership> membership_of(const std::string& line) {
  const size_t first = line.find(':');
  const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  return Membership{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

bool has_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

/// The nearest on the path with the cpu controller: the others, and the root of all, have no
/// cpu.weight. "" where none has it.
std::string group_of_path(const Roots& roots, std::string path) {
  if (path.starts_with("/..")) return path;  // outside of what this process sees
  while (!exists(roots.sys + "/fs/cgroup" + path + "/cpu.weight")) {
    if (path.size() <= 1) return "";
    path.resize(std::max(path.rfind('/'), size_t{1}));
  }
  return path;
}

/// The cgroup that Linux schedules a process in; "" for the root, none where it is not known.
std::optional<std::string> cpu_group_of(const Roots& roots, const std::string& process) {
  std::optional<std::string> unified;
  for (const std::string& line : lines(roots.proc + process + "/cgroup")) {
    const auto membership = membership_of(line);
    if (!membership) continue;
    if (has_cpu(membership->controllers)) return membership->path == "/" ? "" : membership->path;
    if (membership->controllers.empty()) unified = membership->path;
  }
  return unified ? std::optional(group_of_path(roots, *unified)) : std::nullopt;
}

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
  const std::optional<std::string> own = cpu_group_of(roots, "/self");
  if (!own || own != cpu_group_of(roots, process)) return false;
  // Linux groups sessions in the root only.
  const bool are_sessions_groups =
      own->empty() && number(roots.proc + "/sys/kernel/sched_autogroup_enabled").value_or(0) != 0;
  return !are_sessions_groups || autogroup_of(roots, "/self") == autogroup_of(roots, process);
}

}  // namespace lyre::machine
