#pragma once

#include <optional>
#include <utility>

#include "stack/base/nanos.h"

namespace lyre {

/// How long a worker's thread stood still, with its process or machine, or while other threads had
/// its core. The hosts of tests/sim/world have it too. Thread: its owner's.
class Standstills {
 public:
  /// A turn that begins so much later than the thread asked for: the thread stood still. Twenty
  /// other threads on its core take 60 ms at a time.
  static constexpr Nanos kShortest = millis(10);
  /// The worker, which has to look at all its sessions, is told of so much at a time.
  static constexpr Nanos kToldMin = millis(200);

  /// The arguments of Worker::on_standstill().
  struct Told {
    Nanos all;    ///< since the worker was told last
    Nanos pause;  ///< the last standstill, if it is told for that one alone; else 0
  };

  /// The thread sleeps for so long at most before its next turn.
  void on_sleep(Nanos longest) { asked_ = longest; }
  /// A turn begins `passed` after the one before. A value: tell the worker of it.
  std::optional<Told> on_turn(Nanos passed) {
    const Nanos late = passed - std::exchange(asked_, Nanos{0});
    if (late >= kShortest) untold_ += late;
    if (untold_ < kToldMin) return {};
    return Told{.all = std::exchange(untold_, Nanos{0}),
                .pause = late >= kToldMin ? late : Nanos{0}};
  }

 private:
  Nanos asked_{0};   ///< the longest sleep since the last turn
  Nanos untold_{0};  ///< of which the worker does not know yet
};

}  // namespace lyre
