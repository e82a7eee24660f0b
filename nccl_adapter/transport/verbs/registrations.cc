#include "nccl_adapter/transport/verbs/registrations.h"

#include <cerrno>

#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/transport/verbs/memory_error.h"

namespace lyre::nccl_adapter {
namespace {

// Of the smallest page that a device may have. Larger pages only mean that more is registered
// twice.
constexpr uintptr_t kPageBytes = 4096;

}  // namespace

void Registrations::forget_all() {
  for (const auto& [pages, range] : ranges_) {
    if (range.mr != nullptr) api_.dereg_mr(range.mr);
  }
  ranges_.clear();
  known_.clear();
}

// NCCL did not register what is beside exposed memory in its pages: peers may not write there.
Registrations::PageRange Registrations::pages_of(const Memory& memory) {
  const auto from = reinterpret_cast<uintptr_t>(memory.data);
  if (memory.is_exposed) {
    return {.first = from, .last = from + memory.bytes - 1, .is_exposed = true};
  }
  return {.first = from & ~(kPageBytes - 1),
          .last = (from + memory.bytes - 1) | (kPageBytes - 1),
          .is_exposed = false};
}

const ibv_mr* Registrations::find(const Memory* memory) {
  if (const auto known = known_.find(memory); known != known_.end()) return known->second;
  const PageRange pages = pages_of(*memory);
  const auto [it, is_new] = ranges_.try_emplace(pages);
  if (is_new) {
    const int access = pages.is_exposed ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
    it->second.mr = api_.reg_mr(pd_, reinterpret_cast<void*>(pages.first),
                                pages.last - pages.first + 1, access);
    if (it->second.mr == nullptr) mention_copies(memory->bytes, errno);
  }
  ++it->second.users;
  return known_[memory] = it->second.mr;
}

// Logged once a device: the reason is the same for all buffers of NCCL.
void Registrations::mention_copies(size_t bytes, int code) {
  if (std::exchange(is_mentioned_, true)) return;
  log_warn("RDMA: %zu bytes of NCCL's memory cannot be registered and are copied: %s", bytes,
           memory_error_text(code).c_str());
}

void Registrations::forget(const Memory* memory) {
  if (known_.erase(memory) == 0) return;
  const auto it = ranges_.find(pages_of(*memory));
  if (--it->second.users > 0) return;
  if (it->second.mr != nullptr) api_.dereg_mr(it->second.mr);
  ranges_.erase(it);
}

void Registrations::withdraw_exposed() {
  for (auto& [pages, range] : ranges_) {
    if (!pages.is_exposed || range.mr == nullptr) continue;
    api_.dereg_mr(range.mr);
    range.mr = nullptr;
  }
  for (auto& [memory, mr] : known_) {
    if (memory->is_exposed) mr = nullptr;
  }
}

}  // namespace lyre::nccl_adapter
