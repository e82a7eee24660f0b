#pragma once

#include <cstdint>
#include <string>

#include "daemon/base/owned_fd.h"
#include "stack/base/nanos.h"

namespace lyre {

/// Whether more threads of the host are runnable than it has processors. Then a thread that polls
/// takes a processor from another one, and Linux places the others around it.
/// Thread: its owner's.
class CrowdedHost {
 public:
  /// The time between two looks. One takes 2 us on two processors, and more on more: the kernel
  /// adds up a number of each.
  static constexpr Nanos kLookEvery = millis(5);
  /// The answer is that of most looks among the last ones: threads that work in turns are not all
  /// runnable at one moment.
  static constexpr int kScoreMax = 8;

  /// `loadavg`: the path of the kernel's file. Where it cannot be read, no host is crowded.
  CrowdedHost(const std::string& loadavg, uint32_t processors);

  bool is_due(Nanos now) const { return now >= next_look_; }
  /// The kernel's number includes the calling thread.
  bool look(Nanos now);

 private:
  OwnedFd file_;
  const uint32_t processors_;
  Nanos next_look_{INT64_MIN / 2};
  int score_ = 0;  ///< up to kScoreMax, with each look that says so
};

}  // namespace lyre
