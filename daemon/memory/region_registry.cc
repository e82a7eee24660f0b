#include "daemon/memory/region_registry.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/shared_memory.h"
#include "daemon/protocol/handover_records.h"
#include "stack/base/check.h"

namespace lyre {

namespace {

static_assert(kMapAtOnceArenaBytesMax >= channel::kArenaBytesDefault);

/// Times that an index is used before a name comes again.
constexpr uint32_t kUses = 1u << (32 - channel::kRegionIndexBits);

}  // namespace

using Kind = worker::Command::Kind;

RegionRegistry::RegionRegistry(uint32_t worker_count, const RegionLimits& limits, PortMapping ports,
                               Post post, ArenaDone arena_done)
    : worker_count_(worker_count),
      limits_(limits),
      ports_(std::move(ports)),
      post_(std::move(post)),
      arena_done_(std::move(arena_done)),
      regions_(worker::kRegionsMax - worker::kContextsMax),
      usage_(worker::kContextsMax) {
  for (auto i = static_cast<uint32_t>(regions_.size()); i > 0; --i) free_.push_back(i - 1);
}

/// Only when the daemon ends: it waits for the ports.
RegionRegistry::~RegionRegistry() {
  arena_done_ = nullptr;
  is_ending_.store(true, std::memory_order_relaxed);  // before a job that waits can begin
  jobs_.set_paused(false);  // no port is opened any more that would go first
  for (uint32_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i] != nullptr && !regions_[i]->is_dropped) drop(i);
  }
  while (
      std::any_of(regions_.begin(), regions_.end(), [](const auto& r) { return r != nullptr; })) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    poll();
  }
}

Status RegionRegistry::open_window() {
  if (window_ != nullptr) return Ok{};
  auto window = RegionWindow::reserve();
  if (!window.ok()) return window.error();
  window_ = std::move(*window);
  if (ports_.set_window) ports_.set_window(window_->addresses());
  return Ok{};
}

Status RegionRegistry::guard_arena(uint32_t context, const uint8_t* arena, uint64_t bytes) {
  if (Status status = open_window(); !status.ok()) return status;
  if (Status status = window_->guard(arena, bytes); !status.ok()) return status;
  usage_[context].arena = arena;
  return Ok{};
}

Status RegionRegistry::check_share(uint32_t context, uint64_t bytes) const {
  const Usage& used = usage_[context];
  if (used.regions >= channel::kRegionsPerContextMax) {
    return Error{EDQUOT, "a client has at most " + std::to_string(channel::kRegionsPerContextMax) +
                             " regions"};
  }
  const uint64_t bytes_max = limits_.bytes_per_context_max;
  if (bytes > bytes_max || used.bytes > bytes_max - bytes) {
    return Error{EDQUOT, "a client has at most " + std::to_string(bytes_max >> 20) +
                             " MiB registered (clients.registered_bytes_max)"};
  }
  if (Status status = check_share_of_user(used, bytes); !status.ok()) return status;
  if (free_.empty()) return Error{ENOSPC, "all regions of the daemon are in use"};
  return Ok{};
}

Status RegionRegistry::check_share_of_user(const Usage& owner, uint64_t bytes) const {
  Usage all;
  for (const Usage& used : usage_) {
    if (used.user != owner.user) continue;
    all.regions += used.regions;
    all.bytes += used.bytes;
  }
  for (const auto& region : regions_) {
    if (region == nullptr || !region->is_dropped || region->user != owner.user) continue;
    ++all.regions;
    all.bytes += region->bytes;
  }
  // A file that waits to be closed is a descriptor of the daemon.
  if (all.regions + frees_.waiting_of(owner.user) >= limits_.regions_per_uid_max) {
    return Error{EDQUOT,
                 "clients of one uid have, with files that are still being closed, at most " +
                     std::to_string(limits_.regions_per_uid_max) +
                     " regions (clients.regions_per_uid_max)"};
  }
  const uint64_t bytes_max = std::min(limits_.bytes_per_uid_max, owner.bytes_of_user_max);
  if (bytes > bytes_max || all.bytes > bytes_max - bytes) {
    const bool is_domains = bytes_max == owner.bytes_of_user_max;
    return Error{EDQUOT,
                 "clients of one uid have, with memory that is still being given back, at most " +
                     std::to_string(bytes_max >> 20) +
                     (is_domains ? " MiB registered (domain.registered_bytes_max)"
                                 : " MiB registered (clients.registered_bytes_per_uid_max)")};
  }
  return Ok{};
}

Result<uint32_t> RegionRegistry::add(uint32_t context, ClientMemory&& memory) {
  if (Status status = open_window(); !status.ok()) return status.error();
  if (Status status = check_share(context, memory.bytes); !status.ok()) return status.error();
  auto base = window_->map(memory.file.get(), memory.offset, memory.bytes, memory.page_bytes);
  if (!base.ok()) return base.error();
  const uint32_t index = free_.back();
  free_.pop_back();
  uses_ = (uses_ + 1) % kUses;
  keep(index, uses_ << channel::kRegionIndexBits | (index + worker::kContextsMax), context,
       base.value(), std::move(memory));
  map_for_ports(index);
  return regions_[index]->name;
}

void RegionRegistry::keep(uint32_t index, uint32_t name, uint32_t context, uint8_t* base,
                          ClientMemory memory) {
  regions_[index] = std::make_unique<Region>();
  Region& region = *regions_[index];
  region.name = name;
  region.context = context;
  region.user = usage_[context].user;
  region.base = base;
  region.file = std::move(memory.file);
  region.offset = memory.offset;
  region.bytes = memory.bytes;
  region.page_bytes = memory.page_bytes;
  ++usage_[context].regions;
  usage_[context].bytes += memory.bytes;
}

bool RegionRegistry::is_done_at_once(uint64_t bytes, uint64_t bytes_max) const {
  return bytes <= bytes_max && at_once_bytes_ + bytes <= kMapAtOnceOfLookBytesMax;
}

bool RegionRegistry::map_arena(uint32_t context, const uint8_t* arena, uint64_t bytes,
                               uint64_t page_bytes) {
  if (!ports_.map) return true;
  return run_for_arena(context, bytes,
                       [this, arena, bytes, page_bytes] { map_now(arena, bytes, page_bytes); });
}

bool RegionRegistry::unmap_arena(uint32_t context, const uint8_t* arena, uint64_t bytes) {
  if (!ports_.unmap) return true;
  return run_for_arena(context, bytes, [this, arena, bytes] { ports_.unmap(arena, bytes); });
}

bool RegionRegistry::run_for_arena(uint32_t context, uint64_t bytes, std::function<void()> job) {
  Usage& usage = usage_[context];
  if (!usage.is_arena_at_job && is_done_at_once(bytes, kMapAtOnceArenaBytesMax)) {
    at_once_bytes_ += bytes;
    job();
    return true;
  }
  usage.is_arena_at_job = true;
  jobs_.submit(static_cast<uint32_t>(regions_.size()) + context,
               {.user = usage.user, .client = context}, std::move(job));
  return false;
}

/// Mapping takes long, and a daemon that ends would wait for it only to unmap it again. Unmapping
/// what was not mapped does nothing (DmaMap::remove()).
void RegionRegistry::map_now(const uint8_t* base, uint64_t bytes, uint64_t page_bytes) const {
  // Relaxed: the flag publishes no other data. A job that misses it maps what is unmapped later.
  if (is_ending_.load(std::memory_order_relaxed)) return;
  ports_.map(base, bytes, page_bytes);
}

/// The workers are told when the ports know the memory. Those that do not know the context yet,
/// whose arena is being mapped, must not know its memory: the client's jobs keep their order.
void RegionRegistry::map_for_ports(uint32_t index) {
  Region& region = *regions_[index];
  if (!ports_.map) return tell_workers(region, Kind::kAddRegion);
  const auto map = [this, base = region.base, bytes = region.bytes,
                    page_bytes = region.page_bytes] { map_now(base, bytes, page_bytes); };
  if (usage_[region.context].is_arena_at_job ||
      !is_done_at_once(region.bytes, kMapAtOnceBytesMax)) {
    region.is_at_job = true;
    return jobs_.submit(index, owner_of(region), map);
  }
  at_once_bytes_ += region.bytes;
  map();
  tell_workers(region, Kind::kAddRegion);
}

void RegionRegistry::poll() {
  at_once_bytes_ = 0;
  for (const uint32_t index : jobs_.take_done()) on_job_done(index);
  frees_.take_done();
}

void RegionRegistry::on_job_done(uint32_t index) {
  if (index >= regions_.size()) {
    const uint32_t context = index - static_cast<uint32_t>(regions_.size());
    usage_[context].is_arena_at_job = false;
    if (arena_done_) arena_done_(context);
    return;
  }
  Region& region = *regions_[index];
  region.is_at_job = false;
  if (region.is_unmapped) return forget(index);
  if (region.is_dropped) return unmap(index);  // its client left while it was mapped
  tell_workers(region, Kind::kAddRegion);
}

void RegionRegistry::tell_workers(Region& region, Kind kind) {
  for (uint32_t i = 0; i < worker_count_; ++i) region.pending.set(i);
  for (uint32_t i = 0; i < worker_count_; ++i) post_(i, command_of(region, kind));
}

worker::Command RegionRegistry::command_of(const Region& region, Kind kind) const {
  return {.kind = kind,
          .context = region.context,
          .region = region.name,
          .memory = region.base,
          .memory_bytes = region.bytes,
          .page_bytes = region.page_bytes};
}

Status RegionRegistry::remove(uint32_t context, uint32_t name) {
  const uint32_t index = channel::region_index(name);
  Region* region =
      index < worker::kContextsMax ? nullptr : regions_[index - worker::kContextsMax].get();
  if (region == nullptr || region->name != name || region->context != context ||
      region->is_leaving || region->is_at_job || region->pending.any()) {
    return Error{ENOENT, "the client has no such region"};
  }
  begin_removal(*region);
  return Ok{};
}

void RegionRegistry::begin_removal(Region& region) {
  region.is_leaving = true;
  tell_workers(region, Kind::kRemoveRegion);
}

void RegionRegistry::on_reply(uint32_t worker, const worker::Reply& reply) {
  using Answer = worker::Reply::Kind;
  const uint32_t index = channel::region_index(reply.region) - worker::kContextsMax;
  LYRE_CHECK(index < regions_.size());  // the worker's answer names what tell_workers() named
  // A context that detaches loses its regions; answers about them are then without effect.
  if (regions_[index] == nullptr || regions_[index]->name != reply.region) return;
  Region& region = *regions_[index];
  if (region.is_dropped || region.is_leaving != (reply.kind == Answer::kRegionRemoved)) return;
  region.is_refused |= reply.kind == Answer::kRegionRefused;
  region.pending.reset(worker);
  if (region.pending.any()) return;
  if (!region.is_leaving && region.is_refused) return begin_removal(region);
  RegionAnswer answer{.context = region.context, .region = region.name};
  if (region.is_refused) answer.error = "a worker still holds earlier memory in its place";
  if (region.is_leaving) drop(index);
  answers_.push_back(answer);
}

/// No worker knows the region any more, and it counts for no client. For its user it counts until
/// it is unmapped: clients that come and go would fill the window, and a NIC would pin it all.
void RegionRegistry::drop(uint32_t index) {
  Region& region = *regions_[index];
  --usage_[region.context].regions;
  usage_[region.context].bytes -= region.bytes;
  region.is_dropped = true;
  if (!region.is_at_job) unmap(index);
}

void RegionRegistry::unmap(uint32_t index) {
  Region& region = *regions_[index];
  region.is_unmapped = true;
  if (!ports_.unmap) return forget(index);
  const auto unmap_for_ports = [this, base = region.base, bytes = region.bytes] {
    ports_.unmap(base, bytes);
  };
  if (!is_done_at_once(region.bytes, kMapAtOnceBytesMax)) {
    region.is_at_job = true;
    return jobs_.submit(index, owner_of(region), unmap_for_ports);
  }
  at_once_bytes_ += region.bytes;
  unmap_for_ports();
  forget(index);
}

BackgroundJobs::Owner RegionRegistry::owner_of(const Region& region) {
  return {.user = region.user, .client = region.context};
}

void RegionRegistry::forget(uint32_t index) {
  Region& region = *regions_[index];
  window_->unmap(region.base);
  close_memory(owner_of(region), std::move(region.file), region.bytes, 0);
  regions_[index].reset();
  free_.push_back(index);
}

void RegionRegistry::close_memory(uint32_t context, OwnedFd file, uint64_t bytes,
                                  uint64_t counted_bytes) {
  close_memory({.user = usage_[context].user, .client = context}, std::move(file), bytes,
               counted_bytes);
}

void RegionRegistry::free_memory(const BackgroundJobs::Owner& owner, OwnedFd file, uint64_t bytes,
                                 uint64_t counted_bytes) {
  close_memory(owner, std::move(file), bytes, counted_bytes, free_pages);
}

void RegionRegistry::close_memory(const BackgroundJobs::Owner& owner, OwnedFd file, uint64_t bytes,
                                  uint64_t counted_bytes, void (*before)(int fd)) {
  if (bytes <= kMapAtOnceBytesMax && is_freed_at_once(file.get())) {
    if (before != nullptr) before(file.get());
    return;
  }
  // A job can be copied.
  auto shared = std::make_shared<OwnedFd>(std::move(file));
  const auto close = [shared, before] {
    if (before != nullptr) before(shared->get());
    shared->reset();
  };
  frees_.submit(0, owner, close, counted_bytes);
}

void RegionRegistry::forget_context(uint32_t context) {
  const uint8_t* arena = std::exchange(usage_[context].arena, nullptr);
  if (arena != nullptr) window_->unguard(arena);
  for (uint32_t i = 0; usage_[context].regions > 0 && i < regions_.size(); ++i) {
    const Region* region = regions_[i].get();
    if (region != nullptr && region->context == context && !region->is_dropped) drop(i);
  }
}

uint32_t RegionRegistry::take_faulted_context() {
  const uint8_t* base = window_ == nullptr ? nullptr : window_->take_faulted();
  if (base == nullptr) return UINT32_MAX;
  const auto found = std::find_if(regions_.begin(), regions_.end(), [base](const auto& region) {
    return region != nullptr && region->base == base && !region->is_dropped;
  });
  if (found != regions_.end()) return (*found)->context;
  const auto owner = std::find_if(usage_.begin(), usage_.end(),
                                  [base](const Usage& used) { return used.arena == base; });
  return owner == usage_.end() ? UINT32_MAX : static_cast<uint32_t>(owner - usage_.begin());
}

bool RegionRegistry::is_registering() const {
  const bool is_arena_mapped = std::any_of(usage_.begin(), usage_.end(), [](const Usage& used) {
    return used.is_arena_at_job && used.arena != nullptr;  // else it is unmapped
  });
  if (is_arena_mapped) return true;
  return std::any_of(regions_.begin(), regions_.end(), [](const auto& region) {
    if (region == nullptr || region->is_dropped) return false;
    return region->is_at_job || region->is_refused ||
           (region->pending.any() && !region->is_leaving);
  });
}

uint32_t RegionRegistry::write_handover(record::Writer& out, std::vector<int>& descriptors) const {
  uint32_t count = 0;
  for (const auto& region : regions_) {
    if (region == nullptr || region->is_dropped) continue;
    const RegionRecord record{.name = region->name,
                              .context = region->context,
                              .offset = region->offset,
                              .bytes = region->bytes,
                              .page_bytes = region->page_bytes,
                              .is_leaving = region->is_leaving,
                              .pending = region->pending.to_ullong()};
    out.add(record::Kind::kRegion, kDaemonHandoverVersion,
            [&](record::FieldWriter& fields) { list_region(fields, record); });
    descriptors.push_back(region->file.get());
    ++count;
  }
  return count;
}

Status RegionRegistry::take_over(uint32_t count, uint32_t uses, record::Reader& in,
                                 DescriptorQueue& descriptors) {
  uses_ = uses % kUses;
  for (uint32_t i = 0; i < count; ++i) {
    if (Status status = take_over_one(in, descriptors); !status.ok()) return status;
  }
  return Ok{};
}

Status RegionRegistry::take_over_one(record::Reader& in, DescriptorQueue& descriptors) {
  RegionRecord record;
  const auto list = [&](record::FieldReader& fields) { list_region(fields, record); };
  const bool is_read = in.take(record::Kind::kRegion, kDaemonHandoverVersion, list);
  const uint32_t index = channel::region_index(record.name) - worker::kContextsMax;
  const uint64_t known = worker_count_ == 64 ? ~uint64_t{0} : (uint64_t{1} << worker_count_) - 1;
  if (!is_read || index >= regions_.size() || regions_[index] != nullptr ||
      record.context >= usage_.size() || usage_[record.context].user == UINT64_MAX ||
      (record.pending & ~known) != 0 || (record.pending != 0) != record.is_leaving) {
    return Error{EPROTO, "the record of a client's registered memory is not right"};
  }
  if (Status status = open_window(); !status.ok()) return status;
  ClientMemory memory{descriptors.take(), record.offset, record.bytes, record.page_bytes};
  auto base = window_->map(memory.file.get(), memory.offset, memory.bytes, memory.page_bytes);
  if (!base.ok()) return base.error();
  std::erase(free_, index);
  keep(index, record.name, record.context, base.value(), std::move(memory));
  regions_[index]->is_leaving = record.is_leaving;
  regions_[index]->pending = record.pending;
  if (ports_.map) ports_.map(base.value(), record.bytes, record.page_bytes);
  return Ok{};
}

void RegionRegistry::append_commands(uint32_t worker,
                                     const std::function<bool(uint32_t context)>& knows,
                                     std::vector<worker::Command>& out) const {
  for (const auto& region : regions_) {
    if (region == nullptr || region->is_dropped || !knows(region->context)) continue;
    if (region->is_leaving && !region->pending.test(worker)) continue;
    out.push_back(command_of(*region, Kind::kAddRegion));
  }
}

}  // namespace lyre
