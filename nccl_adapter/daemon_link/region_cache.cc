#include "nccl_adapter/daemon_link/region_cache.h"

#include <algorithm>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"

namespace lyre::nccl_adapter {

void RegionCache::make_known(lyre_context* context, const Key& key, Memory* entry) {
  // Small messages are copied in any case.
  if (context == nullptr || key.second < kZeroCopyBytesMin) return;
  lyre_region* region = nullptr;
  const int code = lyre_register(context, key.first, key.second, &region);
  // The next daemon is asked again.
  if (code == LYRE_E_DAEMON || code == LYRE_E_EXPELLED) return;
  if (code != 0) return mention_copies(key.second, lyre_last_error());
  const char* why = nullptr;
  if (lyre_region_is_direct(region, &why) != 0) {
    entry->region = region;
    return;
  }
  mention_copies(key.second, why);
  lyre_deregister(region);
}

// Logged once a daemon: the reason is the same for all buffers of NCCL.
void RegionCache::mention_copies(size_t bytes, const char* why) {
  if (!is_mentioned_) log_info("%zu bytes of NCCL's memory are copied: %s", bytes, why);
  is_mentioned_ = true;
}

Memory* RegionCache::take(lyre_context* context, const void* data, size_t bytes) {
  const Key key(data, bytes);
  const auto [it, is_new] = entries_.try_emplace(key);
  if (is_new) {
    it->second.data = data;
    it->second.bytes = bytes;
    make_known(context, key, &it->second);
  }
  ++it->second.users;
  return &it->second;
}

int RegionCache::give_back(Memory* entry) {
  if (--entry->users > 0) return 0;
  const int code = lyre_deregister(entry->region);
  if (code == LYRE_E_TIMEDOUT) {
    log_warn("a port does not release NCCL's memory: %s", lyre_last_error());
  }
  std::erase_if(entries_, [&](const auto& own) { return &own.second == entry; });
  return code;
}

void RegionCache::on_detached() {
  for (auto& [key, entry] : entries_) entry.region = nullptr;
  is_mentioned_ = false;
}

void RegionCache::on_attached(lyre_context* context) {
  for (auto& [key, entry] : entries_) make_known(context, key, &entry);
}

}  // namespace lyre::nccl_adapter
