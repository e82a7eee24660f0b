#include "nccl_adapter/daemon_link/region_cache.h"

#include "nccl_adapter/observe/log.h"

namespace lyre::nccl_adapter {

void RegionCache::make_known(lyre_context* context, Memory* entry) {
  // Small messages are copied in any case.
  if (context == nullptr || entry->bytes < kZeroCopyBytesMin) return;
  lyre_region* region = nullptr;
  const int code = lyre_register(context, entry->data, entry->bytes, &region);
  // The next daemon is asked again.
  if (code == LYRE_E_DAEMON || code == LYRE_E_EXPELLED) return;
  if (code != 0) return mention_copies(entry->bytes, lyre_last_error());
  const char* why = nullptr;
  if (lyre_region_is_direct(region, &why) != 0) {
    entry->region = region;
    return;
  }
  mention_copies(entry->bytes, why);
  if (lyre_region_is_refused_for_now(region) != 0) {
    refused_.push_back(entry);
    asks_at_ns_.reset();
  }
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
    make_known(context, &it->second);
  }
  ++it->second.users;
  return &it->second;
}

// What is refused again goes to the end, as a smaller buffer may fit in what a limit has left, and
// what is refused for good is not asked for any more.
void RegionCache::ask_again(lyre_context* context, int64_t now_ns) {
  if (refused_.empty()) return;
  if (!asks_at_ns_) asks_at_ns_ = now_ns + kAskAgainNs;
  if (now_ns < *asks_at_ns_) return;
  Memory* entry = refused_.front();
  refused_.pop_front();
  make_known(context, entry);
  if (entry->region == nullptr) {
    asks_at_ns_.reset();
    return;
  }
  asks_at_ns_ = now_ns + kAskNextNs;
  if (refused_.empty() && std::exchange(is_mentioned_, false)) {
    log_info("NCCL's memory that had to wait is registered, and not copied any more");
  }
}

int RegionCache::give_back(Memory* entry) {
  if (--entry->users > 0) return 0;
  std::erase(refused_, entry);
  const int code = lyre_deregister(entry->region);
  if (code == LYRE_E_TIMEDOUT) {
    log_warn("a port does not release NCCL's memory: %s", lyre_last_error());
  }
  std::erase_if(entries_, [&](const auto& own) { return &own.second == entry; });
  return code;
}

void RegionCache::on_detached() {
  for (auto& [key, entry] : entries_) entry.region = nullptr;
  refused_.clear();
  is_mentioned_ = false;
}

void RegionCache::on_attached(lyre_context* context) {
  for (auto& [key, entry] : entries_) make_known(context, &entry);
}

}  // namespace lyre::nccl_adapter
