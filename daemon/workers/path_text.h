#pragma once

#include <cstddef>
#include <span>

namespace lyre {

/// The program text that a packet passes through. While a worker only polls, the other code of the
/// packet path leaves the processor's caches, also of a core that nothing else uses, and the first
/// packets of a job's next step wait for memory line by line. So a worker that expects a step
/// fetches these lines again and again, some in each turn.
/// Thread: its owner's.
class PathText {
 public:
  /// Fetched by one call. More at a time take the caches from the clients: with three times as much
  /// an all-reduce of 64 KiB after a gap took longer than with nothing.
  static constexpr size_t kBytesAtOnce = 32 * 64;

  explicit PathText(std::span<const std::byte> text) : text_(text) {}
  /// What packet_path.ld collects; empty where the linker did not use it.
  static PathText of_program();

  /// Does not wait for the lines.
  void fetch_some();
  /// What the next fetch_some() fetches: piece by piece, from the first byte to the last.
  std::span<const std::byte> next() const;

 private:
  std::span<const std::byte> text_;
  size_t at_ = 0;
};

}  // namespace lyre
