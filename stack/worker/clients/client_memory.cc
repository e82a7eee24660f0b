#include "stack/worker/clients/client_memory.h"

#include "stack/base/check.h"

namespace lyre::worker {

ClientMemory::ClientMemory()
    : regions_(static_cast<Region*>(std::calloc(kRegionsMax, sizeof(Region))), std::free),
      by_context_(kContextsMax) {
  LYRE_CHECK(regions_ != nullptr);
}

void ClientMemory::add(uint32_t name, uint32_t context, const uint8_t* base, uint64_t bytes) {
  const uint32_t index = channel::region_index(name);
  LYRE_CHECK(index >= kContextsMax && is_free(index));
  regions_[index] = {.name = name, .context = context, .base = base, .bytes = bytes};
  by_context_[context].push_back(regions_, index);
}

void ClientMemory::remove(uint32_t index) {
  Region& region = regions_[index];
  LYRE_CHECK(region.name != 0);
  by_context_[region.context].remove(regions_, index);
  if (region.is_leaving) leaving_.remove(regions_, index);
  region = Region{};
}

bool ClientMemory::try_begin_leaving(uint32_t name) {
  const uint32_t index = channel::region_index(name);
  Region& region = regions_[index];
  if (name == 0 || region.name != name) return false;
  LYRE_CHECK(!region.is_leaving);
  region.is_leaving = true;
  leaving_.push_back(regions_, index);
  return true;
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
