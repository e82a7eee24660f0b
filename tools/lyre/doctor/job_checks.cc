#include "tools/lyre/doctor/job_checks.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>

#include "machine/files.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/file_limits.h"
#include "tools/lyre/doctor/listener.h"
#include "tools/lyre/doctor/nccl_checks.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {
namespace {

constexpr const char* kDefaultSocket = "/run/lyre/lyred.sock";
constexpr const char* kCannotAttach =
    "the plugin cannot attach, and NCCL falls back to its own sockets";
/// As glibc says it of itself in its file.
constexpr std::string_view kGlibcRelease = "stable release version ";

std::string glibc_of(const Job& job) {
  const std::string library = library_of(job, "libc.so.6");
  if (library.empty()) return {};
  const std::string bytes = machine::regular_file(file_of(job, library), kLibraryBytesMax);
  const size_t found = bytes.find(kGlibcRelease);
  if (found == std::string::npos) return {};
  std::istringstream rest(bytes.substr(found + kGlibcRelease.size(), 16));  // "2.36."
  int major = 0;
  int minor = 0;
  char dot = 0;
  rest >> major >> dot >> minor;
  return std::to_string(major) + dot + std::to_string(minor);
}

FoundLibrary find_in(const Job& job, const std::string& name) {
  const std::string path = library_of(job, name);
  if (path.empty()) {
    return {.path = {}, .file = {}, .wrong = "there is no " + name + " in its file system"};
  }
  return {.path = path, .file = file_of(job, path), .wrong = {}};
}

bool may_write(const Job& job, const struct stat& file) {
  if (job.uid == 0) return true;
  if (job.uid == file.st_uid) return (file.st_mode & S_IWUSR) != 0;
  if (std::ranges::find(job.gids, file.st_gid) != job.gids.end()) {
    return (file.st_mode & S_IWGRP) != 0;
  }
  return (file.st_mode & S_IWOTH) != 0;
}

Finding closed_socket(const Job& job, const std::string& saw, const struct stat& file) {
  const group* members = ::getgrgid(file.st_gid);
  const std::string group = members != nullptr ? members->gr_name : std::to_string(file.st_gid);
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(file.st_mode & 07777));
  return problem("job socket",
                 saw + " has mode " + mode + " and group " + group + ", the process has uid " +
                     std::to_string(job.uid) + " and is no member",
                 kCannotAttach,
                 "usermod -aG " + group + " USER; for a container --group-add " +
                     std::to_string(file.st_gid) + ", in Kubernetes supplementalGroups");
}

/// The daemon answered to the user of this process, not to the job's.
Finding check_silent_for(const Job& job, const std::string& saw, Silence silence) {
  const std::string as_the_job = "as uid " + std::to_string(job.uid) +
                                 ", in the job's groups: lyre doctor --pid " +
                                 std::to_string(job.pid);
  switch (silence) {
    case Silence::kOtherVersion:
      return note("job socket", saw,
                  "the daemon is of another release than this lyre: what is said of the plugin's "
                  "release is not about it",
                  "systemctl restart lyred, where this lyre was installed later; else the lyre "
                  "that was installed with the daemon");
    case Silence::kRefused:
      if (job.uid == ::geteuid()) {
        return problem("job socket", saw, kCannotAttach,
                       "correct in lyred.toml what it names, of a [[domain]] its `uids` or "
                       "`gids`; or LYRE_SOCKET with that of the job's domain");
      }
      [[fallthrough]];
    case Silence::kClosed:
      return note("job socket", saw,
                  "the daemon does not serve this user: whether it serves the job is not known",
                  as_the_job);
    case Silence::kAbsent:
      break;
  }
  return problem("job socket", saw, kCannotAttach,
                 "systemctl start lyred; if it runs, start the container again: its mount of the "
                 "directory is older than the directory");
}

/// A socket that the job, or another user, has made itself.
Finding foreign_daemon(const Job& job, const std::string& saw, const Listener& listener) {
  return note("job socket",
              saw + ": " + process_text(listener) +
                  " listens there, allowed: root, the user lyre, and this user",
              "it may not be lyred, so it is not asked: whether it serves the job is not known",
              "LYRE_SOCKET with lyred's socket; or as uid " + std::to_string(listener.uid) +
                  ": lyre doctor --pid " + std::to_string(job.pid));
}

/// Who listens is not known, so it is not asked.
Finding busy_socket(const std::string& saw) {
  return note("job socket", saw + ": more connections wait there than are taken",
              "whether it serves the job is not known", "run lyre doctor again");
}

/// Reads nothing of the daemon but its release. The kernel names its process.
Finding check_answer(const Job& job, const std::string& saw, const std::string& file) {
  const HeldFile held(file);
  bool is_busy = false;
  const std::optional<Listener> listener = listener_at(held.path(), &is_busy);
  if (is_busy) return busy_socket(saw);
  if (listener && !may_be_daemon(*listener)) return foreign_daemon(job, saw, *listener);
  try {
    const StatsSegment segment(held.path().c_str());
    return fine("job socket", saw + ": lyred " + segment.daemon_version() + " answers, " +
                                  (listener ? process_text(*listener) : "of an unknown process"));
  } catch (const Failure& failure) {
    std::string reason = reason_of(failure);
    const std::string prefix = held.path() + ": ";
    if (reason.starts_with(prefix)) reason.erase(0, prefix.size());
    return check_silent_for(job, saw + ": " + reason, silence_of(failure));
  }
}

Finding check_socket(const Job& job, const Settings& settings) {
  const auto set = settings.find("LYRE_SOCKET");
  const std::string path =
      set != settings.end() && !set->second.empty() ? set->second : kDefaultSocket;
  const std::string saw = path + " in its file system";
  const std::string file = file_of(job, path);
  struct stat status {};
  if (file.empty() || ::stat(file.c_str(), &status) != 0) {
    return problem("job socket", saw + " is missing", kCannotAttach,
                   "give the container the directory of the socket: -v /run/lyre:/run/lyre, or "
                   "--device lyre.example/port=all; or set LYRE_SOCKET");
  }
  if (!may_write(job, status)) return closed_socket(job, saw, status);
  return check_answer(job, saw, file);
}

}  // namespace

std::vector<Finding> check_job(const Job& job) {
  std::vector<Finding> findings{fine(
      "job", std::to_string(job.pid) + " (" + job.program + "), uid " + std::to_string(job.uid))};
  std::vector<std::string> files = nccl_files(job.environment, home_of(job));
  for (std::string& path : files) path = file_of(job, path);
  const Settings settings = nccl_settings(job.environment, files);
  const auto find = [&job](const std::string& name) { return find_in(job, name); };
  for (Finding& finding : check_nccl(settings, find, glibc_of(job))) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(check_socket(job, settings));
  return findings;
}

}  // namespace lyre::tools
