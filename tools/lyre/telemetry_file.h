#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "nccl_adapter/abi/telemetry.h"

namespace lyre::tools {

/// A file that shows what a process does with the NCCL plugin. Any user may put a file of such a
/// name into the directory, of any kind, and change or truncate it at any time: it is opened
/// without waiting and read, never mapped.
class TelemetryFile {
 public:
  /// `path` ends with the name that the plugin gives: prefix, uid, process, number.
  explicit TelemetryFile(const std::string& path);
  ~TelemetryFile();
  TelemetryFile(const TelemetryFile&) = delete;
  TelemetryFile& operator=(const TelemetryFile&) = delete;

  /// False: it is no regular file of the plugin's size and of the user that its name tells, or may
  /// not be read.
  bool is_open() const { return fd_ >= 0; }
  /// False: too short by now. The values may be anything.
  bool read_header(nccl_abi::TelemetryHeader* out) const;
  /// Nothing for a slot that is unused, or changed at every try. REQUIRES: index < kTelemetrySlots.
  std::optional<nccl_abi::CommView> read_slot(uint32_t index) const;

 private:
  bool read_at(uint64_t offset, void* out, size_t bytes) const;

  int fd_ = -1;
};

}  // namespace lyre::tools
