#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/base/background_jobs.h"
#include "daemon/base/owned_fd.h"

namespace lyre {

namespace worker {
struct DomainRules;
}

/// Memory of contexts that are over here, and that another process still has open or maps: a client
/// that has not closed its context yet, or one that keeps the descriptor. It counts as long.
/// Thread: the control thread. Owner: the descriptors.
class LeftMemory {
 public:
  struct Entry {
    BackgroundJobs::Owner owner;
    const worker::DomainRules* domain = nullptr;  ///< compared only
    OwnedFd file;                                 ///< can_be_taken_back()
    uint64_t bytes = 0;
    uint64_t counted_bytes = 0;  ///< for the user
  };

  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  /// Those that no other process has any more. Looks at kLooksMax, and at the others next time.
  std::vector<Entry> take_free();

  size_t count() const { return entries_.size(); }
  size_t count_of(uint64_t user) const;
  size_t count_of_domain(const worker::DomainRules* domain) const;
  uint64_t bytes_of(uint64_t user) const;

  static constexpr size_t kLooksMax = 8;

 private:
  std::deque<Entry> entries_;
};

}  // namespace lyre
