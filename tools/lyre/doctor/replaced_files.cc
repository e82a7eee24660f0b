#include "tools/lyre/doctor/replaced_files.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace lyre::tools {
namespace {

/// What the kernel appends to the name of a file that is not at its path any more.
constexpr std::string_view kDeleted = " (deleted)";
constexpr std::string_view kUnitSuffix = ".service";

/// The file of a line of /proc/PID/maps, "BEGIN-END RIGHTS OFFSET DEVICE INODE NAME", if code of it
/// is mapped and it was replaced; else empty. Memory without a path is never at one.
std::string replaced_file(const std::string& line) {
  const auto words = machine::words(line);
  if (!line.ends_with(kDeleted) || words.size() < 6 || words[1].find('x') == std::string::npos) {
    return "";
  }
  const size_t begin = line.find('/');
  const std::string name = begin == std::string::npos ? "" : line.substr(begin);
  if (name.empty() || name.starts_with("/memfd:") || name.starts_with("/dev/")) return "";
  return name.substr(0, name.size() - kDeleted.size());
}

/// The unit of the process, without ".service"; `lyred` if no unit of lyred's has it, as in a
/// container.
std::string running_unit(const std::string& folder) {
  for (const std::string& line : machine::lines(folder + "/cgroup")) {
    const std::string name = line.substr(line.rfind('/') + 1);
    if (name.starts_with("lyred") && name.ends_with(kUnitSuffix)) {
      return name.substr(0, name.size() - kUnitSuffix.size());
    }
  }
  return "lyred";
}

}  // namespace

std::vector<Finding> check_replaced_files(const machine::Roots& roots, int32_t pid) {
  const std::string folder = roots.proc + "/" + std::to_string(pid);
  if (!machine::first_line(folder + "/comm").starts_with("lyred")) return {};
  std::set<std::string> files;
  for (const std::string& line : machine::lines(folder + "/maps")) {
    if (std::string file = replaced_file(line); !file.empty()) files.insert(std::move(file));
  }
  if (files.empty()) return {};
  std::string saw = "lyred, pid " + std::to_string(pid) + ", runs the old " + *files.begin();
  if (files.size() > 1) {
    saw += " and " + std::to_string(files.size() - 1) + " more of the files that were replaced";
  }
  return {note(
      "libraries", saw, "what an update corrected in them is not in the daemon yet",
      "systemctl reload " + running_unit(folder) + "    # with the same sessions; or restart")};
}

}  // namespace lyre::tools
