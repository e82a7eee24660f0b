#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/lyre/doctor/finding.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/snapshot.h"

/// What `lyre doctor` asks lyred.
namespace lyre::tools {

/// What `lyred --check` said: a finding for each line. No status: it was not started, for the
/// reason `start_error`.
std::vector<Finding> read_config_check(std::optional<int> status, const std::string& output,
                                       int start_error = ENOENT);
/// What `lyred --check` of a file printed, and its exit status: none where it was not started.
struct ConfigCheck {
  std::optional<int> status;
  std::string output;
  int start_error = 0;  ///< of errno; ENOENT: it is not installed
};
ConfigCheck run_config_check(const std::string& config_path);
/// A configuration that the user named and that cannot be read; else nothing. For machines without
/// lyred, which says so itself.
std::vector<Finding> check_named_config(const std::string& path);
/// Workers that lyred would run, as it printed them; 1 where it did not.
uint32_t workers_in(const std::string& output);

/// Who may open the socket; nothing if it is not there.
std::vector<Finding> check_socket(const std::string& path);

/// Why a daemon does not tell of itself.
enum class Silence : uint8_t {
  kAbsent,       ///< it does not run, or does not answer
  kClosed,       ///< this user may not open the socket
  kRefused,      ///< it does not serve this user, or not now
  kOtherVersion  ///< it and this `lyre` have no version in common
};
/// `failure`: of StatsSegment.
Silence silence_of(const Failure& failure);
/// Its text without a remedy: a finding has its own.
std::string reason_of(const Failure& failure);

/// False where no daemon listens at `socket`, or none answers.
bool is_daemon_there(const char* socket);

/// The daemon's version and ports, and packets that it drops for a reason that has a remedy.
/// `earlier`: a look at the same daemon; nullptr: there was none.
std::vector<Finding> check_running(const Snapshot& snapshot, const Snapshot* earlier,
                                   const std::string& own_version);
/// The same of the daemon at `socket`, or why it cannot be asked. Takes a second where what was
/// dropped has to be looked at twice.
std::vector<Finding> check_daemon(const char* socket);

}  // namespace lyre::tools
