#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stack/io/sim/link.h"
#include "tests/sim/world/client.h"
#include "tests/sim/world/dialog.h"
#include "tests/sim/world/world_host.h"

namespace lyre::sim {

class World;

/// An event that happens at a given time.
struct WorldEvent {
  Nanos at;
  std::function<void(World&)> happens;
};

/// The parameters of a run: two hosts with real workers, the wire between them, the plans of their
/// applications, and the events.
struct WorldPlan {
  uint64_t seed = 1;
  io::sim::LinkOptions link;
  std::array<io::sim::PathOptions, 2> paths;
  std::array<WorldHostOptions, 2> hosts;
  Dialogs dialogs;
  std::vector<WorldEvent> events;
  uint32_t lag_ppm = 100'000;        ///< a worker or client skips a turn
  uint32_t turn_ns_max = 5'000;      ///< duration of a turn with work
  uint32_t replace_engine_ppm = 0;   ///< a turn in which an engine is replaced by its copy
  uint32_t upgrade_ppm = 0;          ///< a turn in which another worker goes on in place of one
  uint32_t checked_connections = 4;  ///< after each turn, on each host
  bool may_be_unreachable = false;   ///< a dialog may fail to open because ARP got no answer
  /// No frame is lost, sent twice, overtaken or refused by a buffer, no host stands still, and
  /// clients release soon: then nothing may be sent again, by a timeout or a tail probe, and
  /// nothing may need a window probe. Each would hide a defect.
  bool needs_no_timers = false;
  /// With small writes and without SACK and timestamps on a lossy wire, Karn's rule leaves a minute
  /// between retransmissions.
  Nanos time_max = seconds(24 * 3600);
  uint64_t turns_max = 20'000'000;
};

struct WorldOutcome {
  std::string failure;  ///< empty when no check failed
  uint64_t trace_hash = 0;
  uint64_t turns = 0;
  uint64_t connections = 0;  ///< that were established
  uint64_t bytes = 0;        ///< that arrived
  uint64_t frames = 0;
  uint64_t frames_lost = 0;
  uint64_t upgrades = 0;        ///< workers that another one took the place of
  uint64_t frames_too_big = 0;  ///< for a path whose MTU had shrunk
  HostCounts counts;            ///< of both hosts
  uint64_t reused_tuples = 0;   ///< dialogs with the 4-tuple of one that was opened before
  Nanos span;                   ///< virtual time
  /// Received bytes and end status of both ends, by dialog. It excludes timing, which determines
  /// how far an aborted dialog got, and which one is not opened: their hash is empty.
  std::vector<std::optional<uint64_t>> dialog_hashes;
  uint64_t stream_hash = 0;  ///< of dialog_hashes
};

/// Runs a plan. Thread: one.
class World {
 public:
  explicit World(WorldPlan plan);
  WorldOutcome run();

  // For events.
  io::sim::Link& link() { return link_; }
  WorldHost& host(uint32_t index) { return *hosts_[index]; }
  /// The client disappears as if it had crashed; a new one replaces it.
  void crash(uint32_t host, uint32_t client) { hosts_[host]->crash(client); }
  void stand_still(uint32_t host, Nanos span, bool is_asleep) {
    hosts_[host]->stand_still(now_, now_ + span, is_asleep);
  }
  void replace_engines();

 private:
  bool turn();
  size_t poll_hosts();
  void run_events();
  void jump();
  bool is_talking();
  void finish();
  void count(WorldOutcome& out) const;
  HostCounts counts() const;
  bool is_excused(const Dialog& dialog) const;
  std::optional<uint64_t> hash_of(const Dialog& dialog) const;
  std::string judge() const;
  std::string judge_timers() const;
  std::string failure() const;
  Nanos next_event() const;

  WorldPlan plan_;
  Rng rng_;
  Nanos now_ = seconds(1);
  io::sim::Link link_;
  std::array<std::unique_ptr<WorldHost>, 2> hosts_;
  size_t next_event_ = 0;
  uint64_t turns_ = 0;
  uint64_t upgrades_ = 0;
  bool is_stuck_ = false;
  bool is_finishing_ = false;
};

}  // namespace lyre::sim
