#include "tools/lyre/doctor/daemon_checks.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/child_program.h"
#include "tools/lyre/doctor/port_checks.h"
#include "tools/lyre/doctor/replaced_files.h"

namespace lyre::tools {
namespace {

/// A counter that grows meanwhile counts what happens now.
constexpr std::chrono::seconds kLookAgainAfter{1};
constexpr std::string_view kProgram = "lyred: ";
constexpr std::string_view kAllowed = ", allowed: ";
/// In the line about isolated cores, before the setting.
constexpr std::string_view kUnitNeeds = "; the unit of the service needs ";
/// In the line about a port whose virtual function DPDK cannot drive.
constexpr std::string_view kThroughHost = " sends and receives through the host";
/// In the line about queues of an interface that a port on AF_XDP does not have, before those that
/// it has. The remedy follows the next colon.
constexpr std::string_view kQueuesOfKernel = " goes to the kernel, as the port has only queue";
/// As the client library begins what a daemon said before it hung up, which has no code of its own.
constexpr std::string_view kRefusal = "the daemon refused: ";
/// The client library's remedy follows it.
constexpr std::string_view kDenied = ": Permission denied";

/// A line of `lyred --check`: "FILE:LINE: KEY: what is wrong, allowed: what is not".
Finding config_problem(const std::string& line) {
  const size_t allowed = line.rfind(kAllowed);
  return problem("config", line.substr(0, allowed), "lyred does not start, or not as configured",
                 allowed == std::string::npos ? "correct that line"
                                              : "use " + line.substr(allowed + kAllowed.size()));
}

/// "port X sends and receives through the host, ...: why, allowed: what mends it".
Finding host_path(const std::string& line) {
  const size_t allowed = line.rfind(kAllowed);
  return note("config", line.substr(0, allowed),
              "the port works, with a fraction of the bandwidth of its virtual function",
              allowed == std::string::npos ? "" : "use " + line.substr(allowed + kAllowed.size()));
}

Finding queues_of_kernel(const std::string& line) {
  const size_t remedy = line.find(": ", line.find(kQueuesOfKernel));
  return note("config", line.substr(0, remedy),
              "connections whose packets arrive on the other queues time out",
              remedy == std::string::npos ? "" : line.substr(remedy + 2));
}

/// A line of a check that found nothing wrong.
Finding config_line(const std::string& line) {
  if (line.find(kThroughHost) != std::string::npos) return host_path(line);
  if (line.find(kQueuesOfKernel) != std::string::npos) return queues_of_kernel(line);
  const size_t needs = line.find(kUnitNeeds);
  if (needs == std::string::npos) return fine("config", line);
  return note("config", line.substr(0, needs),
              "a service may use isolated cores only where its unit names them; else lyred does "
              "not start",
              line.substr(needs + kUnitNeeds.size()) +
                  " under [Service] of lyred's unit, where it is not there: systemctl edit lyred");
}

Finding check_silent(const std::string& saw, Silence silence) {
  switch (silence) {
    case Silence::kClosed:
      return problem("daemon", saw, "a daemon runs, and this user may not look",
                     "as root: usermod -aG GROUP USER, with the socket's group; or --socket with "
                     "that of your domain");
    case Silence::kRefused:
      return problem(
          "daemon", saw, "a daemon runs, and does not serve this user",
          "correct in lyred.toml what it names, of a [[domain]] its `uids` or `gids`; or "
          "--socket with that of your domain");
    case Silence::kOtherVersion:
      return problem("daemon", saw, "the daemon that runs and this lyre are of different releases",
                     "systemctl restart lyred, where this lyre was installed later; else the lyre "
                     "that was installed with the daemon");
    case Silence::kAbsent:
      break;
  }
  return problem("daemon", saw, "programs cannot use the stack",
                 "systemctl enable --now lyred; if it runs: journalctl -u lyred");
}

/// Of a daemon that answers.
std::vector<Finding> check_counters(const StatsSegment& segment, const Snapshot& first) {
  if (!needs_earlier_look(first)) return check_running(first, nullptr, lyre_version());
  std::this_thread::sleep_for(kLookAgainAfter);
  return check_running(segment.look(), &first, lyre_version());
}

}  // namespace

std::vector<Finding> read_config_check(std::optional<int> status, const std::string& output,
                                       int start_error) {
  if (!status && start_error != ENOENT) {
    return {problem("config", std::string("lyred was not started: ") + std::strerror(start_error),
                    "its configuration cannot be checked",
                    "the lyred that `command -v lyred` names has to be a program that this user "
                    "may execute")};
  }
  if (!status) {
    return {note("config", "lyred is not installed here", "its configuration cannot be checked",
                 "apt install ./lyre_*.deb ./lyre-nccl_*.deb, in the folder of the packages")};
  }
  std::vector<Finding> findings;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kProgram)) line.erase(0, kProgram.size());
    findings.push_back(*status == 0 ? config_line(line) : config_problem(line));
  }
  return findings;
}

ConfigCheck run_config_check(const std::string& config_path) {
  ConfigCheck check;
  check.status = run_program({"lyred", "--check", "--config", config_path}, check.output);
  if (!check.status) check.start_error = errno;
  return check;
}

std::vector<Finding> check_named_config(const std::string& path) {
  if (::access(path.c_str(), R_OK) == 0) return {};
  return {problem("config", path + " cannot be read: " + std::strerror(errno),
                  "what is said of ports and hugepages is not about it",
                  "name a file that this user may read")};
}

uint32_t workers_in(const std::string& output) {
  std::istringstream lines(output);
  unsigned workers = 0;
  for (std::string line; std::getline(lines, line);) {
    if (std::sscanf(line.c_str(), "workers: %u,", &workers) == 1) break;
  }
  return std::max(workers, 1u);
}

std::vector<Finding> check_socket(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return {};
  const passwd* owner = ::getpwuid(file.st_uid);
  const std::string owner_name = owner != nullptr ? owner->pw_name : std::to_string(file.st_uid);
  const group* members = ::getgrgid(file.st_gid);
  const std::string group_name =
      members != nullptr ? members->gr_name : std::to_string(file.st_gid);
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(file.st_mode & 07777));
  const std::string saw = path + ", mode " + mode + ", " + owner_name + ":" + group_name;
  // A client connects: it needs to write.
  if ((file.st_mode & S_IWOTH) != 0) {
    return {note("socket", saw, "every process of this machine may use the stack",
                 "daemon.socket_mode = \"0660\" in lyred.toml")};
  }
  std::string members_of = owner_name == "root" ? "root" : "root and " + owner_name;
  if ((file.st_mode & S_IWGRP) != 0) members_of += " and members of " + group_name;
  return {fine("socket", saw + ": " + members_of + " may open it")};
}

std::vector<Finding> check_running(const Snapshot& snapshot, const Snapshot* earlier,
                                   const std::string& own_version) {
  std::vector<Finding> findings;
  const std::string saw = "lyred " + snapshot.daemon_version + ", pid " +
                          std::to_string(snapshot.pid) + ", this lyre is " + own_version;
  if (snapshot.daemon_version == own_version) {
    findings.push_back(fine("daemon", saw));
  } else {
    findings.push_back(note("daemon", saw, "the daemon that runs is not the one installed",
                            "systemctl restart lyred    # NCCL's connections continue"));
  }
  for (const auto check : {check_links, check_addresses, check_offloads, check_paths}) {
    for (Finding& finding : check(snapshot)) findings.push_back(std::move(finding));
  }
  for (Finding& finding : check_checksums(snapshot, earlier)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

Silence silence_of(const Failure& failure) {
  if (failure.lyre_code() == LYRE_E_VERSION) return Silence::kOtherVersion;
  if (std::string_view(failure.what()).starts_with(kRefusal)) return Silence::kRefused;
  return failure.lyre_code() == LYRE_E_PERMISSION ? Silence::kClosed : Silence::kAbsent;
}

std::string reason_of(const Failure& failure) {
  const std::string text = failure.what();
  const size_t denied = text.find(kDenied);
  if (silence_of(failure) != Silence::kClosed || denied == std::string::npos) return text;
  return text.substr(0, denied + kDenied.size());
}

bool is_daemon_there(const char* socket) {
  try {
    StatsSegment segment(socket);
    return true;
  } catch (const Failure& failure) {
    return silence_of(failure) != Silence::kAbsent;
  }
}

std::vector<Finding> check_daemon(const char* socket) {
  try {
    const StatsSegment segment(socket);
    const Snapshot first = segment.look();
    std::vector<Finding> findings = check_counters(segment, first);
    for (Finding& finding : check_replaced_files({}, first.pid)) {
      findings.push_back(std::move(finding));
    }
    return findings;
  } catch (const Failure& failure) {
    return {check_silent(reason_of(failure), silence_of(failure))};
  }
}

}  // namespace lyre::tools
