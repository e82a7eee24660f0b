#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stack/base/rng.h"
#include "tests/sim/world/dialog.h"
#include "tests/support/channel_client.h"

namespace lyre::sim {

struct ClientOptions {
  bool is_lent = true;
  uint32_t arena_blocks = 32;
  uint32_t registered_blocks = 0;  ///< in memory of its own that it registers
  Nanos read_pause{0};             ///< lent slots are given back so much later
  uint32_t step_events = 32;       ///< completions looked at in one step
  uint16_t backlog = 64;
};

/// An application on the real channel of one host: it dials and accepts what the dialogs say, fills
/// blocks of its arena, checks every byte it receives, and gives slots back. Thread: the world's.
class Client {
 public:
  static constexpr uint32_t kBlockBytes = 8192;

  Client(worker::Worker& worker, uint32_t host, uint32_t index, const ClientOptions& options,
         std::span<const uint8_t> pool, Dialogs& dialogs);

  /// Looks at its ring and moves every dialog of its own on. Returns the work done.
  size_t step(Nanos now, Rng& rng);
  /// When it wants to do something by itself; kNever when it only waits for the worker.
  Nanos next_deadline(Nanos now) const;
  /// Asks the worker to let go of it, in mid-sentence if need be; step() no more.
  void detach();
  /// The worker answered to its registration: it may send from there.
  void on_region_added();
  /// What it saw that must not be; empty when all is well.
  const std::string& failure() const { return failure_; }
  std::string describe() const {
    return std::to_string(active_.size()) + " open, " + std::to_string(dials_.size() - next_dial_) +
           " to dial, " + std::to_string(owed_.size()) + " slots owed, " +
           std::to_string(free_blocks_.size()) + " blocks free";
  }
  bool is_idle() const {
    return active_.empty() && next_dial_ == dials_.size() && unanswered_ == 0 && owed_.empty();
  }

 private:
  struct Seat {
    uint32_t generation = 0;
    uint32_t dialog = UINT32_MAX;
    uint32_t end = 0;
  };
  struct Owed {
    Nanos at;
    uint32_t slot;
  };
  void on_completion(const channel::Completion& entry, Nanos now);
  void on_accepted(const channel::Completion& entry);
  void on_connected(const channel::Completion& entry);
  void on_data(const channel::Completion& entry, Nanos now);
  void on_send_done(EndState& end, uint64_t descriptors);
  void on_end(const Seat& seat, channel::EndStatus status);
  void sit(const channel::SessionName& name, uint32_t dialog, uint32_t end);
  size_t dial(Nanos now);
  size_t talk(Nanos now);
  size_t send_some(Dialog& dialog, uint32_t end, Nanos now);
  bool leave(Dialog& dialog, uint32_t end);
  size_t give_back(Nanos now);
  void fill(uint32_t block, uint64_t seed, uint32_t place, uint32_t bytes);
  bool is_in_arena(uint32_t block) const { return block < options_.arena_blocks; }
  uint8_t* memory_of(uint32_t block);
  void submit(const EndState& end, uint32_t block, uint32_t bytes);
  uint32_t region_name() const;
  void fail(const std::string& text);
  const Seat* seat_of(const channel::SessionName& name) const;

  const uint32_t host_;
  const uint32_t index_;
  const ClientOptions options_;
  const std::span<const uint8_t> pool_;
  Dialogs& dialogs_;
  test::ChannelClient channel_;
  std::vector<uint8_t> registered_;
  bool has_listened_ = false;
  std::vector<uint32_t> dials_;  ///< dialogs of its own, the earliest first
  size_t next_dial_ = 0;
  uint32_t unanswered_ = 0;   ///< dialed, and neither connected nor failed
  std::vector<Seat> seats_;   ///< by session index
  std::vector<Seat> active_;  ///< ends that are open
  std::vector<uint32_t> free_blocks_;
  std::deque<Owed> owed_;
  std::string failure_;
};

}  // namespace lyre::sim
