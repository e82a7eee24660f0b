#include "daemon/control/left_memory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/shared_memory.h"
#include "daemon/protocol/handover_records.h"
#include "stack/worker/inbox.h"

namespace lyre {
namespace {

bool has_bytes(int fd, uint64_t bytes) {
  struct stat file {};
  return ::fstat(fd, &file) == 0 && static_cast<uint64_t>(file.st_size) == bytes;
}

}  // namespace

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
  return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), [user](const auto& e) {
    return e.facts.owner.user == user;
  }));
}

size_t LeftMemory::count_of_domain(const worker::DomainRules* domain) const {
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [domain](const auto& e) { return e.facts.domain == domain; }));
}

uint64_t LeftMemory::bytes_of(uint64_t user) const {
  uint64_t bytes = 0;
  for (const Entry& entry : entries_) {
    if (entry.facts.owner.user == user) bytes += entry.facts.counted_bytes;
  }
  return bytes;
}

void LeftMemory::write_handover(record::Writer& out, std::vector<int>& descriptors) const {
  for (const Entry& entry : entries_) write_one(entry.facts, entry.file.get(), out, descriptors);
}

void LeftMemory::write_one(const Facts& facts, int fd, record::Writer& out,
                           std::vector<int>& descriptors) {
  const LeftMemoryRecord record{.user = facts.owner.user,
                                .context = facts.owner.client,
                                .domain = facts.domain == nullptr ? kNoDomain : facts.domain->index,
                                .bytes = facts.bytes,
                                .counted_bytes = facts.counted_bytes};
  out.add(record::Kind::kLeftMemory, kDaemonHandoverVersion,
          [&](record::FieldWriter& fields) { list_left_memory(fields, record); });
  descriptors.push_back(fd);
}

Status LeftMemory::take_over(uint32_t count, std::span<const worker::DomainRules> domains,
                             record::Reader& in, DescriptorQueue& descriptors) {
  for (uint32_t i = 0; i < count; ++i) {
    if (Status taken = take_over_one(domains, in, descriptors); !taken.ok()) return taken;
  }
  return Ok{};
}

Status LeftMemory::take_over_one(std::span<const worker::DomainRules> domains, record::Reader& in,
                                 DescriptorQueue& descriptors) {
  const Error wrong{EPROTO, "the record of an ended client's memory is not right"};
  LeftMemoryRecord record;
  const auto list = [&](record::FieldReader& fields) { list_left_memory(fields, record); };
  if (!in.take(record::Kind::kLeftMemory, kDaemonHandoverVersion, list)) return wrong;
  const bool is_domain_right = record.domain == kNoDomain || record.domain < domains.size();
  OwnedFd file = descriptors.take();
  if (!is_domain_right || record.counted_bytes > record.bytes ||
      !has_bytes(file.get(), record.bytes)) {
    return wrong;
  }
  // Without leases nothing would tell when it is free.
  if (!can_be_taken_back(file.get())) return Ok{};
  add({.facts = {.owner = {.user = record.user, .client = record.context},
                 .domain = record.domain == kNoDomain ? nullptr : &domains[record.domain],
                 .bytes = record.bytes,
                 .counted_bytes = record.counted_bytes},
       .file = std::move(file)});
  return Ok{};
}

}  // namespace lyre
