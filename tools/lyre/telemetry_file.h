#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "nccl_adapter/abi/telemetry.h"

namespace lyre::tools {

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
  /// False when the file has become too short. The values are not checked.
  bool read_header(nccl_abi::TelemetryHeader* out) const;
  /// nullopt when the slot is unused, or changed during each attempt.
  /// REQUIRES: index < kTelemetrySlots.
  std::optional<nccl_abi::CommView> read_slot(uint32_t index) const;

 private:
  bool read_at(uint64_t offset, void* out, size_t bytes) const;

  int fd_ = -1;
};

}  // namespace lyre::tools
