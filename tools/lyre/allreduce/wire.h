#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

/// The out-of-band channel between ranks and launchers: frames on a stream socket. NCCL has its
/// bootstrap for this; here every rank talks to its launcher, and launchers of other machines to
/// the first one, which is the hub.
namespace lyre::allreduce {

/// A launcher waits no longer than this for frames before it looks at its deadlines.
inline constexpr int kPollMs = 100;

enum class FrameType : uint16_t {
  kJoin = 1,  // joining launcher -> hub: what it offers
  kJob,       // hub -> rank: what to run (a joining launcher starts the rank)
  kGather,    // rank -> hub: its part; answered when all parts are there
  kGathered,  // hub -> rank: all parts in rank order
  kProgress,  // rank -> hub: still moving
  kResult,    // rank -> hub: numbers of a finished job
  kError,     // rank -> hub: RankError
  kExited,    // launcher -> hub: a rank's process is gone; payload: how, if not cleanly
  kFinish,    // hub -> joining launcher: the command's exit code
};

struct Frame {
  FrameType type = FrameType::kProgress;
  uint16_t rank = 0;
  nlohmann::json payload;
};

/// Fails: returns false when the other end is gone. Blocks while the socket's buffer is full.
bool send_frame(int fd, const Frame& frame);

/// Collects frames from a stream that may deliver them in pieces.
class FrameReader {
 public:
  /// Reads once what is there; false at the end of the stream or on an error.
  bool read_some(int fd);
  /// Fails: throws Failure when the bytes are not frames.
  std::optional<Frame> next();

 private:
  std::string buffer_;
};

}  // namespace lyre::allreduce
