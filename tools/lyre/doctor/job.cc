#include "tools/lyre/doctor/job.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "machine/files.h"
#include "tools/lyre/doctor/file_limits.h"
#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

namespace fs = std::filesystem;

/// As the kernel has it.
constexpr int kLinksMax = 40;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::string content_of(const std::string& path) {
  return machine::regular_file(path, kTextFileBytesMax);
}

/// The numbers of a line of /proc/PID/status, such as "Groups:\t4 27".
std::vector<uint32_t> numbers_of(const std::vector<std::string>& status, const std::string& name) {
  std::vector<uint32_t> numbers;
  for (const std::string& line : status) {
    const auto words = machine::words(line);
    if (words.empty() || words[0] != name) continue;
    for (size_t i = 1; i < words.size(); ++i) {
      numbers.push_back(static_cast<uint32_t>(std::strtoul(words[i].c_str(), nullptr, 10)));
    }
  }
  return numbers;
}

/// Real, effective, saved and file system's, in this order.
uint32_t effective(const std::vector<uint32_t>& ids) { return ids.size() > 1 ? ids[1] : 0; }

/// The folder that chroot(2) made the root of a process, as this process sees it; empty: none. The
/// kernel's paths of what the process has mapped begin with it.
std::string jail_of(const std::string& root) {
  std::error_code error;
  const std::string folder = fs::read_symlink(root, error).string();
  return error || folder == "/" ? "" : folder;
}

/// With paths as the process itself sees them.
std::vector<std::string> libraries_in(const std::string& maps, const std::string& jail) {
  std::vector<std::string> paths;
  std::set<std::string> known;
  for (const std::string& line : split(content_of(maps), '\n')) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos || line.find(".so") == std::string::npos) continue;
    std::string path = line.substr(slash);
    if (!jail.empty() && path.starts_with(jail + "/")) path.erase(0, jail.size());
    if (known.insert(path).second) paths.push_back(path);
  }
  return paths;
}

/// The cache holds each path as a string that ends with zero.
std::string path_in_cache(const std::string& cache, const std::string& name) {
  const std::string end = "/" + name + '\0';
  const size_t found = cache.find(end);
  if (found == std::string::npos) return {};
  const size_t begin = cache.rfind('\0', found);
  const size_t first = begin == std::string::npos ? 0 : begin + 1;
  return cache.substr(first, found + end.size() - 1 - first);
}

}  // namespace

Job job_of(int32_t pid, const std::string& proc) {
  const std::string folder = proc + "/" + std::to_string(pid);
  const auto status = machine::lines(folder + "/status");
  if (status.empty()) {
    throw Failure(kExitUsage, "there is no process " + std::to_string(pid) +
                                  ", allowed: the number of a process of the job, as this machine "
                                  "counts them (lyre sessions)");
  }
  // What this user may not read is not empty, but fails.
  if (!std::ifstream(folder + "/environ")) {
    throw Failure(kExitFailure, folder + "/environ: " + std::strerror(errno) +
                                    ", allowed: root, or the user of the process");
  }
  Job job{.pid = pid,
          .program = machine::first_line(folder + "/comm"),
          .root = folder + "/root",
          .environment = split(content_of(folder + "/environ"), '\0'),
          .loaded = libraries_in(folder + "/maps", jail_of(folder + "/root")),
          .uid = effective(numbers_of(status, "Uid:")),
          .gids = numbers_of(status, "Groups:")};
  job.gids.push_back(effective(numbers_of(status, "Gid:")));
  return job;
}

std::string variable_of(const Job& job, const std::string& name) {
  const std::string start = name + "=";
  for (const std::string& entry : job.environment) {
    if (entry.starts_with(start)) return entry.substr(start.size());
  }
  return {};
}

std::string file_of(const Job& job, const std::string& path) {
  const std::vector<std::string> parts = split(path, '/');
  std::deque<std::string> rest(parts.begin(), parts.end());
  fs::path here = "/";
  int links = 0;
  while (!rest.empty()) {
    const std::string part = rest.front();
    rest.pop_front();
    if (part == ".") continue;
    const fs::path next = part == ".." ? here.parent_path() : here / part;
    std::error_code error;
    const fs::path target = fs::read_symlink(job.root + next.string(), error);
    if (error) {  // no link
      here = next;
      continue;
    }
    if (++links > kLinksMax) return {};
    if (target.is_absolute()) here = "/";
    const std::vector<std::string> aim = split(target.string(), '/');
    rest.insert(rest.begin(), aim.begin(), aim.end());
  }
  const std::string found = job.root + here.string();
  return machine::exists(found) ? found : "";
}

std::string library_of(const Job& job, const std::string& name) {
  if (name.find('/') != std::string::npos) return file_of(job, name).empty() ? "" : name;
  for (const std::string& path : job.loaded) {
    if (path.ends_with("/" + name)) return path;
  }
  std::vector<std::string> folders = split(variable_of(job, "LD_LIBRARY_PATH"), ':');
  const std::string cache = content_of(file_of(job, "/etc/ld.so.cache"));
  const std::string cached = path_in_cache(cache, name);
  if (!cached.empty()) folders.push_back(cached.substr(0, cached.rfind('/')));
  folders.insert(folders.end(), {"/lib", "/usr/lib"});
  for (const std::string& folder : folders) {
    if (!file_of(job, folder + "/" + name).empty()) return folder + "/" + name;
  }
  return {};
}

std::string home_of(const Job& job) {
  // name:password:uid:gid:comment:home:shell
  for (const std::string& line : split(content_of(file_of(job, "/etc/passwd")), '\n')) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ':');) fields.push_back(field);
    if (fields.size() > 5 && fields[2] == std::to_string(job.uid)) return fields[5];
  }
  return variable_of(job, "HOME");
}

}  // namespace lyre::tools
