#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "nccl_adapter/abi/telemetry.h"

namespace lyre::tools {

/// Files of live processes that are read at a time, of all users and of one, and used slots in
/// them. Any user may write as many files as fit into the directory. Once a user, or all users
/// together, have as many files or used slots, the next file is left out. A process has one file
/// and one context for each communicator, and a daemon has 1024 contexts at most.
inline constexpr uint32_t kTelemetryFilesMax = 4096;
inline constexpr uint32_t kTelemetryFilesPerUidMax = 1024;
inline constexpr uint32_t kTelemetryCommsMax = 65536;
inline constexpr uint32_t kTelemetryCommsPerUidMax = 16384;

/// The file in which a process shows the state of its NCCL plugin. Any user may create a file of
/// such a name, of any type, and change or truncate it at any time. It is therefore opened without
/// waiting, and read instead of mapped.
class TelemetryFile {
 public:
  /// `path` ends with the plugin's form of name: prefix, uid, process, number.
  explicit TelemetryFile(const std::string& path);
  ~TelemetryFile();
  TelemetryFile(const TelemetryFile&) = delete;
  TelemetryFile& operator=(const TelemetryFile&) = delete;

  /// False when it may not be read, is not a regular file of the plugin, of any version, or has
  /// slots that are not within it.
  bool is_open() const { return fd_ >= 0; }
  /// The caller may not read it. What it is, and whether its process lives, is not known.
  bool is_denied() const { return is_denied_; }
  /// The uid in the name is another one where the process is in a user namespace.
  /// REQUIRES: is_open().
  uid_t owner() const { return owner_; }
  /// False: its version is one that this program cannot read. All but owner() and is_locked() have
  /// no meaning then.
  /// REQUIRES: is_open().
  bool is_known() const { return nccl_abi::is_telemetry_known(header_); }
  /// As it was when the file was opened. The slots are within the file as it was then; other values
  /// are not checked.
  /// REQUIRES: is_open().
  const nccl_abi::TelemetryHeader& header() const { return header_; }
  /// True while a process holds the file's lock. The plugin holds it until its process ends, also
  /// while that is stopped. A lock that this call gets is released before it returns.
  /// REQUIRES: is_open().
  bool is_locked() const;
  /// REQUIRES: is_known(), index < header().slots.
  bool is_used(uint32_t index) const;
  /// nullopt when the slot is unused, or changed during each attempt. Fields that the file's
  /// version does not have are 0. REQUIRES: is_known(), index < header().slots.
  std::optional<nccl_abi::CommView> read_slot(uint32_t index) const;

 private:
  bool is_genuine();
  uint64_t offset_of(uint32_t slot) const;
  bool read_at(uint64_t offset, void* out, size_t bytes) const;

  int fd_ = -1;
  bool is_denied_ = false;
  uid_t owner_ = 0;
  nccl_abi::TelemetryHeader header_{};
};

}  // namespace lyre::tools
