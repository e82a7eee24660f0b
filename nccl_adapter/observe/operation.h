#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lyre::nccl_adapter {

/// What a message is part of, as NCCL's profiler interface tells it.
struct Operation {
  std::array<char, 16> function{};  ///< "AllReduce", ended by a zero byte; empty: unknown
  int64_t number = -1;  ///< NCCL's, for each function by itself; -1, here and below: unknown
  int32_t rank = -1;
  int32_t peer_rank = -1;
  int64_t channel = -1;
};

/// The operations of the last while, each under a ticket that NCCL carries around as an event
/// handle. A ticket is a number, not a pointer: an old or unknown one finds nothing.
/// Thread: any, without locks.
class OperationTable {
 public:
  static constexpr size_t kSlots = 16'384;

  /// Not 0.
  uint64_t remember(const Operation& operation);
  std::optional<Operation> find(uint64_t ticket) const;

 private:
  static constexpr size_t kWords = sizeof(Operation) / sizeof(uint64_t);
  using Words = std::array<uint64_t, kWords>;
  struct Slot {
    std::atomic<uint64_t> ticket{0};  ///< 0: being written
    std::array<std::atomic<uint64_t>, kWords> words{};
  };

  std::array<Slot, kSlots> slots_;
  std::atomic<uint64_t> last_{0};
};

}  // namespace lyre::nccl_adapter
