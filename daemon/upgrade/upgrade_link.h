#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/descriptor_queue.h"
#include "daemon/base/owned_fd.h"
#include "daemon/base/shared_memory.h"
#include "stack/base/nanos.h"
#include "stack/base/result.h"
#include "stack/record/stream.h"

namespace lyre {

/// What the process that goes and the one that comes say to each other, in this order. The numbers
/// are part of the format.
enum class UpgradeStep : uint32_t {
  kOffer = 1,        ///< goes: records of what both must have alike
  kPrepared = 2,     ///< comes: has all that needs no port; a record of what it is and reads
  kDescriptors = 3,  ///< goes: descriptors, as many messages as they need
  kState = 4,        ///< goes: a memfd with the records, their bytes, and how many descriptors came
  kPortsClosed = 5,  ///< goes: the ports are free
  kTakenOver = 6,    ///< comes: serves from now on; the other one must not
  kFailed = 7,       ///< comes: cannot, the text says why, and ends
};

struct UpgradeMessage {
  UpgradeStep step{};
  std::vector<uint8_t> payload;
  std::vector<OwnedFd> descriptors;
};

/// All that one process leaves to another: records, and the descriptors that they name.
struct UpgradeState {
  SharedMemory memory;
  DescriptorQueue descriptors;
  std::span<const uint8_t> records() const { return {memory.data(), memory.bytes()}; }
};

/// One end of the socket pair between the two processes. Thread: one.
class UpgradeLink {
 public:
  explicit UpgradeLink(OwnedFd socket) : socket_(std::move(socket)) {}

  /// Waits for room, five seconds at most. Fails: the other process is gone, or what the system
  /// says.
  Status send(UpgradeStep step, std::span<const uint8_t> payload = {},
              std::span<const int> descriptors = {}) const;
  /// Sends kFailed. `reason`: one line.
  void send_failure(const std::string& reason) const;
  /// The next message. Fails: EPIPE the other process is gone, ETIMEDOUT, EPROTO not our words.
  Result<UpgradeMessage> receive(Nanos timeout) const;
  /// A message of this step. Fails: as receive(); the reason of the other process if it failed;
  /// EPROTO another step.
  Result<UpgradeMessage> expect(UpgradeStep step, Nanos timeout) const;

  /// kDescriptors and kState. Fails: as send(), or no memory for the records.
  Status send_state(const record::Writer& records, std::span<const int> descriptors) const;
  /// Waits `timeout` for each message of it.
  Result<UpgradeState> receive_state(Nanos timeout) const;

  int fd() const { return socket_.get(); }

 private:
  OwnedFd socket_;
};

}  // namespace lyre
