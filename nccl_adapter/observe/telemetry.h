#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/abi/telemetry.h"

namespace lyre::nccl_adapter {

/// The file in which an instance shows its comms, locked as long as there is somebody who writes
/// it; what others of this user left unlocked is removed. Everything goes on where there can be no
/// file.
/// Thread: under the instance's lock.
class Telemetry {
 public:
  /// `directory`: "none" for no file.
  Telemetry(const std::string& directory, const std::string& host, const std::string& socket);
  /// Removes the file.
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  /// A place for a comm; nullptr when there is none.
  nccl_abi::CommSlot* take();
  void give_back(nccl_abi::CommSlot* slot);
  /// Somebody who is no peer was closed the door on.
  void count_stranger(const std::string& address);
  /// Somebody is alive here.
  void touch(int64_t now_ns);

 private:
  std::string path_;
  int fd_ = -1;
  uint8_t* memory_ = nullptr;
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
};

}  // namespace lyre::nccl_adapter
