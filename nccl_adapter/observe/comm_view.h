#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_adapter/abi/telemetry.h"
#include "nccl_adapter/observe/operation.h"

namespace lyre::nccl_adapter {

/// One stream of a comm. Owner: the rail's text is borrowed.
struct StreamFacts {
  bool is_up = false;
  uint64_t unacked_bytes = 0;
  std::string path;       ///< "rail0 > 10.9.0.2:4711"
  std::string_view rail;  ///< what of it others have in common: "over rail0"
};

/// What `lyre comms` shows of a comm, but for its streams: `view` as far as the comm itself knows.
struct CommFacts {
  nccl_abi::CommView view{};
  std::string_view peer_host;
  std::string_view peer_address;
  Operation operation;  ///< of the oldest request, or else the last one
  bool is_attached = true;
  std::vector<StreamFacts> streams;
};

/// The facts as `lyre comms` reads them.
nccl_abi::CommView view_of(const CommFacts& facts);
/// Writes the facts where `lyre comms` looks.
void show(const CommFacts& facts, nccl_abi::CommSlot* slot);

}  // namespace lyre::nccl_adapter
