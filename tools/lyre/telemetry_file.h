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

  /// False when it may not be read, is not a regular file of the plugin's size, or belongs to
  /// another user than its name says.
  bool is_open() const { return fd_ >= 0; }
  /// REQUIRES: is_open().
  uid_t owner() const { return owner_; }
  /// False when the file has become too short. The values are not checked.
  bool read_header(nccl_abi::TelemetryHeader* out) const;
  /// True while a process holds the file's lock. The plugin holds it until its process ends, also
  /// while that is stopped. A lock that this call gets is released before it returns.
  /// REQUIRES: is_open().
  bool is_locked() const;
  /// REQUIRES: index < kTelemetrySlots.
  bool is_used(uint32_t index) const;
  /// nullopt when the slot is unused, or changed during each attempt.
  /// REQUIRES: index < kTelemetrySlots.
  std::optional<nccl_abi::CommView> read_slot(uint32_t index) const;

 private:
  bool is_genuine(const std::string& path);
  bool read_at(uint64_t offset, void* out, size_t bytes) const;

  int fd_ = -1;
  uid_t owner_ = 0;
};

}  // namespace lyre::tools
