#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "daemon/base/background_jobs.h"
#include "daemon/base/descriptor_queue.h"
#include "daemon/base/owned_fd.h"
#include "stack/base/result.h"
#include "stack/record/stream.h"

namespace lyre {

namespace worker {
struct DomainRules;
}

/// Memory of contexts that are over here, and that another process still has open or maps: a client
/// that has not closed its context yet, or one that keeps the descriptor. It counts as long.
/// Thread: the control thread. Owner: the descriptors.
class LeftMemory {
 public:
  struct Facts {
    BackgroundJobs::Owner owner;
    const worker::DomainRules* domain = nullptr;  ///< borrowed until this object ends
    uint64_t bytes = 0;
    uint64_t counted_bytes = 0;  ///< for the user
  };
  struct Entry {
    Facts facts;
    OwnedFd file;  ///< can_be_taken_back()
  };

  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  /// Those that no other process has any more. Looks at kLooksMax, and at the others next time.
  std::vector<Entry> take_free();

  size_t count() const { return entries_.size(); }
  size_t count_of(uint64_t user) const;
  size_t count_of_domain(const worker::DomainRules* domain) const;
  uint64_t bytes_of(uint64_t user) const;

  /// Appends a kLeftMemory for each entry, and its descriptor, which stays open as long as this
  /// object.
  void write_handover(record::Writer& out, std::vector<int>& descriptors) const;
  /// The same for a memory that is none of these yet.
  static void write_one(const Facts& facts, int fd, record::Writer& out,
                        std::vector<int>& descriptors);
  /// Adds `count` such records. `domains`: what they name. Fails: the records are not right.
  Status take_over(uint32_t count, std::span<const worker::DomainRules> domains, record::Reader& in,
                   DescriptorQueue& descriptors);

  static constexpr size_t kLooksMax = 8;

 private:
  Status take_over_one(std::span<const worker::DomainRules> domains, record::Reader& in,
                       DescriptorQueue& descriptors);

  std::deque<Entry> entries_;
};

}  // namespace lyre
