#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stack/base/rng.h"
#include "tests/sim/world/dialog.h"
#include "tests/support/channel_client.h"
#include "tests/support/two_workers.h"

namespace lyre::sim {

struct ClientOptions {
  bool is_lent = true;
  uint32_t arena_blocks = 32;
  uint32_t registered_blocks = 0;  ///< blocks in registered memory
  Nanos read_pause{0};             ///< delay until lent slots are released
  uint32_t step_events = 32;       ///< completions handled in one step
  uint16_t backlog = 64;
};

/// An application on the real channel of one host. It connects and accepts as the dialogs say,
/// fills blocks of its arena, checks every received byte, and releases slots. Thread: the world's.
class Client {
 public:
  static constexpr uint32_t kBlockBytes = 8192;

  Client(worker::Worker& worker, uint32_t host, uint32_t index, const ClientOptions& options,
         std::span<const uint8_t> pool, Dialogs& dialogs);

  /// Reads its ring and advances every dialog of its own. Returns the amount of work done.
  size_t step(Nanos now, Rng& rng);
  /// The time of its next own action; kNever when it only waits for the worker.
  Nanos next_deadline(Nanos now) const;
  /// Asks the worker to detach it, even in the middle of a transfer. Do not call step() after it.
  /// What it was lent must be as it was until now: see failure().
  void detach();
  /// The worker confirmed the registration: the region can be used for sends.
  void on_region_added();
  /// Another worker goes on in the place of its own. It notices nothing.
  void move_to(worker::Worker& worker) { channel_.move_to(worker); }
  void describe_memory(std::vector<worker::Command>& out) const { channel_.describe_memory(out); }
  /// The first violation that it saw; empty if there was none.
  const std::string& failure() const { return failure_; }
  std::string describe() const;
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
    Nanos at;  ///< when it is given back
    uint32_t dialog;
    test::LentBytes lent;
  };
  void on_completion(const channel::Completion& entry, Nanos now);
  channel::Completion next(Nanos now);
  bool is_too_early(const channel::Completion& entry, Nanos now) const;
  std::optional<uint32_t> accepted_dialog(const channel::Completion& entry) const;
  void on_accepted(const channel::Completion& entry);
  void on_connecting(const channel::Completion& entry, Nanos now);
  void on_connected(const channel::Completion& entry);
  void on_connect_failed(const channel::Completion& entry, Nanos now);
  void dial_again(uint32_t dialog, Nanos at);
  void on_data(const channel::Completion& entry, Nanos now);
  void on_send_done(EndState& end, uint64_t descriptors);
  void on_end(const Seat& seat, channel::EndStatus status);
  void sit(const channel::SessionName& name, uint32_t dialog, uint32_t end);
  size_t dial(Nanos now);
  size_t talk(Nanos now);
  size_t send_some(Dialog& dialog, uint32_t end, Nanos now);
  bool leave(Dialog& dialog, uint32_t end);
  size_t give_back(Nanos now);
  void compare_again(const Owed& owed);
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
  std::vector<uint32_t> dials_;  ///< its own dialogs, the earliest first
  size_t next_dial_ = 0;
  uint32_t unanswered_ = 0;   ///< opened, and neither connected nor failed yet
  channel::Completion held_;  ///< accepted from a port that its dialer has not been told of yet
  std::vector<Seat> seats_;   ///< by session index
  std::vector<Seat> active_;  ///< ends that are open
  std::vector<uint32_t> free_blocks_;
  std::deque<Owed> owed_;
  std::string failure_;
};

}  // namespace lyre::sim
