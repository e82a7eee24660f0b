#include "stack/worker/clients/client_memory.h"

#include "stack/base/check.h"

namespace lyre::worker {

ClientMemory::ClientMemory()
    : regions_(static_cast<Region*>(std::calloc(kRegionsMax, sizeof(Region))), std::free),
      by_context_(kContextsMax),
      registered_bytes_(kContextsMax) {
  LYRE_CHECK(regions_ != nullptr);  // at the start: the count is a constant
}

void ClientMemory::add(uint32_t name, uint32_t context, const uint8_t* base, uint64_t bytes) {
  const uint32_t index = channel::region_index(name);
  // The control thread names an index anew only when every worker gave it up.
  LYRE_CHECK(index >= kContextsMax && is_free(index));
  regions_[index] = {.name = name, .context = context, .base = base, .bytes = bytes};
  by_context_[context].push_back(regions_, index);
  registered_bytes_[context] += bytes;
}

void ClientMemory::remove(uint32_t index) {
  Region& region = regions_[index];
  LYRE_CHECK(region.name != 0);  // RegionLifecycle removes each once
  by_context_[region.context].remove(regions_, index);
  registered_bytes_[region.context] -= region.bytes;
  if (region.is_held_back) {
    held_back_.remove(regions_, index);
  } else if (region.is_leaving) {
    leaving_.remove(regions_, index);
  }
  region = Region{};
}

bool ClientMemory::try_begin_leaving(uint32_t name) {
  const uint32_t index = channel::region_index(name);
  Region& region = regions_[index];
  if (name == 0 || region.name != name) return false;
  // The control thread asks once for each name.
  LYRE_CHECK(!region.is_leaving);
  region.is_leaving = true;
  if (!region.is_held_back) leaving_.push_back(regions_, index);
  return true;
}

void ClientMemory::hold_back(uint32_t index, uint32_t look) {
  Region& region = regions_[index];
  region.look = look;
  if (region.is_held_back) return;
  if (region.is_leaving) leaving_.remove(regions_, index);
  held_back_.push_back(regions_, index);
  region.is_held_back = true;
}

void ClientMemory::let_go(uint32_t index) {
  Region& region = regions_[index];
  held_back_.remove(regions_, index);
  region.is_held_back = false;
  if (region.is_leaving) leaving_.push_back(regions_, index);
}

uint32_t ClientMemory::next_unlooked(uint32_t look) {
  const uint32_t index = held_back_.front();
  held_back_.remove(regions_, index);
  held_back_.push_back(regions_, index);
  regions_[index].look = look;
  return index;
}

ClientMemory::Region& ClientMemory::next_leaving() {
  const uint32_t index = leaving_.front();
  leaving_.remove(regions_, index);
  leaving_.push_back(regions_, index);
  return regions_[index];
}

const char* ClientMemory::locate(uint32_t context, const channel::Submission& entry,
                                 std::optional<BufRef>& out) const {
  const auto& send = entry.body.send;
  uint32_t index = context;
  if (send.region != 0) {
    index = channel::region_index(send.region);
    if (index < kContextsMax) return "kSend names what is no region";
    const Region& named = regions_[index];
    if (named.name != send.region || named.is_leaving) return nullptr;
    if (named.context != context) return "kSend names another client's region";
  }
  const uint64_t region_bytes = regions_[index].bytes;
  if (send.offset > region_bytes || send.bytes > region_bytes - send.offset) {
    return send.region == 0 ? "kSend points outside the arena" : "kSend points outside its region";
  }
  out = BufRef{.region = index, .length = send.bytes, .offset = send.offset};
  return nullptr;
}

}  // namespace lyre::worker
