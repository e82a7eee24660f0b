#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

/// The out-of-band channel between ranks and launchers: frames on a stream socket. It stands for
/// NCCL's bootstrap. Each rank is connected with its launcher, and the launchers of other machines
/// with the first one, the hub.
namespace lyre::allreduce {

/// A launcher checks its deadlines at least this often.
inline constexpr int kPollMs = 100;

enum class FrameType : uint16_t {
  kJoin = 1,  // joining launcher -> hub: its hosts and number of ranks
  kJob,       // hub -> rank: Job (a joining launcher starts the rank)
  kGather,    // rank -> hub: its part; answered when all parts have arrived
  kGathered,  // hub -> rank: all parts in rank order
  kProgress,  // rank -> hub: iteration and bucket
  kResult,    // rank -> hub: RankResult
  kError,     // rank -> hub: RankError
  kExited,    // launcher -> hub: a rank has ended; payload: how, or null for exit code 0
  kFinish,    // hub -> joining launcher: the command's exit code
};

struct Frame {
  FrameType type = FrameType::kProgress;
  uint16_t rank = 0;
  nlohmann::json payload;
};

/// Blocks while the socket's buffer is full. Fails: returns false when the connection is closed.
bool send_frame(int fd, const Frame& frame);

/// Collects frames from a stream that may deliver them in pieces.
class FrameReader {
 public:
  /// Reads once. False at the end of the stream or after an error.
  bool read_some(int fd);
  /// Fails: throws Failure when the bytes are not frames.
  std::optional<Frame> next();

 private:
  std::string buffer_;
};

}  // namespace lyre::allreduce
