#include "daemon/control/left_memory.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/shared_memory.h"

namespace lyre {

std::vector<LeftMemory::Entry> LeftMemory::take_free() {
  std::vector<Entry> free;
  for (size_t looks = std::min(entries_.size(), kLooksMax); looks > 0; --looks) {
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    // Another error: the system tells no more. free_pages() asks again.
    if (take_back(entry.file.get()) || errno != EAGAIN) {
      free.push_back(std::move(entry));
    } else {
      entries_.push_back(std::move(entry));
    }
  }
  return free;
}

size_t LeftMemory::count_of(uint64_t user) const {
  return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(),
                                           [user](const auto& e) { return e.owner.user == user; }));
}

size_t LeftMemory::count_of_domain(const worker::DomainRules* domain) const {
  return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(),
                                           [domain](const auto& e) { return e.domain == domain; }));
}

uint64_t LeftMemory::bytes_of(uint64_t user) const {
  uint64_t bytes = 0;
  for (const Entry& entry : entries_) {
    if (entry.owner.user == user) bytes += entry.counted_bytes;
  }
  return bytes;
}

}  // namespace lyre
