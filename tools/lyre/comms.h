#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nccl_adapter/abi/telemetry.h"
#include "tools/lyre/options.h"

namespace lyre::tools {

/// `lyre comms`: the state of NCCL's connections over Lyre, and what each one waits for. The plugin
/// writes it into `directories`. With `watch_s` it prints again after each interval, until it is
/// interrupted.
void run_comms(const GlobalOptions& globals, const std::vector<std::string>& directories,
               std::optional<double> watch_s);

/// The option --directory of `lyre comms` and `lyre metrics`, as this help describes it.
inline constexpr const char* kTelemetryDirectoryHelp =
    "The directory that the plugin writes into (LYRE_TELEMETRY_DIR); default: /dev/shm, and "
    "/dev/shm/lyre for containers";
/// The one that is named, or where the plugin writes by default: on the host, and in containers
/// that were given the host's folder for it.
std::vector<std::string> telemetry_directories(const std::string& named);
/// Fails: throws Failure where `named` cannot be read. Empty: those by default, which may be
/// missing.
void check_telemetry_directory(const std::string& named);

/// The contents of one file of the plugin.
struct CommsOfProcess {
  uint32_t uid = 0;  ///< the file's owner; all the rest is what that user wrote
  uint32_t pid = 0;
  std::string program;
  std::string host;
  std::string socket;
  uint64_t foreign = 0;      ///< foreign connections that were refused
  std::string last_foreign;  ///< address of the last one
  std::string verbs;         ///< RDMA ports and why not, when it attached; empty: none
  uint32_t not_shown = 0;    ///< comms for which the file has no room
  /// Of a process that lives and has written nothing for some seconds: it is stopped. Else 0.
  int64_t silent_ns = 0;
  std::vector<nccl_abi::CommView> comms;
};

/// All processes at one time. Times are CLOCK_MONOTONIC.
struct CommsSnapshot {
  int64_t at_ns = 0;
  std::vector<CommsOfProcess> processes;
  uint64_t files_left_out = 0;  ///< of live processes: over a limit of telemetry_file.h
  /// Of live processes, of a version that this program cannot read. Locked is what counts as live.
  uint64_t files_of_other_releases = 0;
  uint64_t files_not_read = 0;  ///< that the caller may not read, of live processes or not
  std::vector<std::string> directories_not_read;  ///< each with the reason
};

/// Of the plugin's files in `directories`, which may be missing. Not shown are files of processes
/// that have ended (not written for some seconds, and not locked). Not shown and counted are those
/// that the caller may not read, that are over a limit, or of a version that this program cannot
/// read.
CommsSnapshot read_comms(const std::vector<std::string>& directories, int64_t now_ns);

/// Of the comm's oldest request; 0: it has none.
int64_t oldest_age_ns(const CommsSnapshot& snapshot, const nccl_abi::CommView& view);

/// A short name of the comm, the same in all outputs: the first bytes of its id in hexadecimal.
std::string comm_id_text(const nccl_abi::CommView& view);

/// Rates are means between what the plugin had written before `earlier` and what it wrote last.
/// There are none without `earlier`, and of a comm that was not written since then.
std::string comms_text(const CommsSnapshot& snapshot, const CommsSnapshot* earlier);
nlohmann::ordered_json comms_json(const CommsSnapshot& snapshot, const CommsSnapshot* earlier);

}  // namespace lyre::tools
