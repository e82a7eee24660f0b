#include "daemon/memory/region_window.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/base/errno_error.h"
#include "stack/base/check.h"

namespace lyre {
namespace {

/// Addresses for the registered memory of all clients: far more than a machine has memory.
constexpr uint64_t kWindowBytes = uint64_t{1} << 40;
constexpr uint64_t kWindowBytesMin = uint64_t{1} << 34;

/// The window of the signal handler.
std::atomic<RegionWindow*> g_window{nullptr};
/// Of faults outside the window. Written before the handler is installed.
struct sigaction g_previous {};

/// Handles a fault as it would be without the window.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    ::signal(signal, SIG_DFL);  // the instruction faults again, and the process ends
  }
}

/// Clients' memory, and addresses for it, are left out of a core. Each new mapping is told so: it
/// does not inherit the flag of the one that it replaces.
void leave_out_of_core(void* base, uint64_t bytes) { ::madvise(base, bytes, MADV_DONTDUMP); }

void* reserve_at(void* where, uint64_t bytes, int flags) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const base = ::mmap(where, bytes, PROT_NONE, kFlags | flags, -1, 0);
  if (base != MAP_FAILED) leave_out_of_core(base, bytes);
  return base;
}

}  // namespace

Result<std::unique_ptr<RegionWindow>> RegionWindow::reserve(uint64_t page_bytes) {
  std::unique_ptr<RegionWindow> window(new RegionWindow(page_bytes));
  uint64_t bytes = kWindowBytes;
  void* base = MAP_FAILED;
  for (; base == MAP_FAILED && bytes >= kWindowBytesMin; bytes /= 2) {
    base = reserve_at(nullptr, bytes, 0);
    if (base != MAP_FAILED) break;
  }
  if (base == MAP_FAILED) return errno_error("no addresses for clients' memory");
  window->begin_ = reinterpret_cast<uint64_t>(base);
  window->bytes_ = bytes;
  window->first_ = (window->begin_ + kAlignment - 1) & ~(kAlignment - 1);
  window->last_ = (window->begin_ + bytes) & ~(kAlignment - 1);
  window->free_.emplace(window->first_, window->last_ - window->first_);
  RegionWindow* none = nullptr;
  // A process has one registry of regions, which makes one window.
  LYRE_CHECK(g_window.compare_exchange_strong(none, window.get()));
  if (Status status = window->catch_faults(); !status.ok()) return status.error();
  return window;
}

Status RegionWindow::catch_faults() {
  struct sigaction action {};
  if (::sigaction(SIGBUS, nullptr, &g_previous) != 0) return errno_error("cannot read SIGBUS");
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGBUS, &action, nullptr) != 0) return errno_error("cannot catch SIGBUS");
  return Ok{};
}

RegionWindow::~RegionWindow() {
  RegionWindow* self = this;
  if (!g_window.compare_exchange_strong(self, nullptr)) return;
  ::sigaction(SIGBUS, &g_previous, nullptr);
  ::munmap(reinterpret_cast<void*>(begin_), bytes_);
}

uint64_t RegionWindow::take_range(uint64_t bytes, uint64_t alignment) {
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [begin, free_bytes] = *at;
    const uint64_t aligned = (begin + alignment - 1) & ~(alignment - 1);
    const uint64_t skipped = aligned - begin;
    if (free_bytes < skipped || free_bytes - skipped < bytes) continue;
    free_.erase(at);
    if (skipped > 0) free_.emplace(begin, skipped);
    if (free_bytes - skipped > bytes) free_.emplace(aligned + bytes, free_bytes - skipped - bytes);
    return aligned;
  }
  return 0;
}

void RegionWindow::give_back(uint64_t begin, uint64_t bytes) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(begin, bytes);
}

Result<uint8_t*> RegionWindow::map(int fd, uint64_t offset, uint64_t bytes, uint64_t page_bytes) {
  if (page_bytes < page_bytes_ || page_bytes % page_bytes_ != 0) {
    return Error{EINVAL, "pages of " + std::to_string(page_bytes) + " bytes, and this system has " +
                             std::to_string(page_bytes_)};
  }
  if (bytes == 0 || bytes % page_bytes != 0 || offset % page_bytes != 0) {
    return Error{EINVAL, "not whole pages of " + std::to_string(page_bytes) + " bytes"};
  }
  Slot* const free = find_slot(0);
  const uint64_t begin = free == nullptr ? 0 : take_range(bytes, page_bytes);
  if (begin == 0) return Error{ENOSPC, "no addresses left for clients' memory"};
  void* const where = reinterpret_cast<void*>(begin);
  constexpr int kFlags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  const auto at = static_cast<off_t>(offset);
  void* base = ::mmap(where, bytes, PROT_READ | PROT_WRITE, kFlags, fd, at);
  if (base == MAP_FAILED && (errno == EACCES || errno == EPERM)) {
    base = ::mmap(where, bytes, PROT_READ, kFlags, fd, at);
  }
  if (base == MAP_FAILED) {
    const Error error = errno_error("cannot map the client's memory");
    take_back(where, bytes);
    return error;
  }
  leave_out_of_core(base, bytes);
  fill(*free, begin, bytes);
  ++mapped_count_;
  return static_cast<uint8_t*>(base);
}

/// 0: a slot that is not in use.
RegionWindow::Slot* RegionWindow::find_slot(uint64_t begin) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [begin](const Slot& slot) {
    return slot.begin.load(std::memory_order_relaxed) == begin;
  });
  return found == slots_.end() ? nullptr : &*found;
}

void RegionWindow::fill(Slot& slot, uint64_t begin, uint64_t bytes) {
  // Pairs with the acquire fence in the handler: who reads this `end` finds that `begin` was
  // cleared.
  std::atomic_thread_fence(std::memory_order_release);
  slot.end.store(begin + bytes, std::memory_order_relaxed);
  slot.begin.store(begin, std::memory_order_release);  // pairs with the acquire in the handler
}

Status RegionWindow::guard(const uint8_t* base, uint64_t bytes) {
  Slot* const free = find_slot(0);
  if (free == nullptr) return Error{ENOSPC, "no place left to guard a client's memory"};
  fill(*free, reinterpret_cast<uint64_t>(base), bytes);
  return Ok{};
}

void RegionWindow::unguard(const uint8_t* base) {
  Slot* const slot = find_slot(reinterpret_cast<uint64_t>(base));
  LYRE_CHECK(slot != nullptr);  // the registry calls this once, for what it guarded
  clear(*slot);
}

/// A fault that nobody took counts no longer.
void RegionWindow::clear(Slot& slot) {
  if (slot.has_faulted.exchange(false, std::memory_order_relaxed)) {
    faults_.fetch_sub(1, std::memory_order_relaxed);
  }
  slot.begin.store(0, std::memory_order_relaxed);
}

void RegionWindow::unmap(uint8_t* base) {
  const auto begin = reinterpret_cast<uint64_t>(base);
  Slot* const slot = find_slot(begin);
  LYRE_CHECK(slot != nullptr);  // the registry unmaps each mapping once
  const uint64_t bytes = slot->end.load(std::memory_order_relaxed) - begin;
  clear(*slot);
  take_back(base, bytes);
  --mapped_count_;
}

/// Reserves the range again, in which nothing may be mapped any more. Where the kernel refuses (a
/// process has vm.max_map_count mappings), the range is not used again.
void RegionWindow::take_back(void* where, uint64_t bytes) {
  if (reserve_at(where, bytes, MAP_FIXED) == where) {
    give_back(reinterpret_cast<uint64_t>(where), bytes);
  } else {
    ::munmap(where, bytes);
  }
}

uint8_t* RegionWindow::take_faulted() {
  // Acquire: pairs with the release in replace_by_zeros().
  if (faults_.load(std::memory_order_acquire) == 0) return nullptr;
  for (Slot& slot : slots_) {
    if (slot.begin.load(std::memory_order_relaxed) == 0) continue;
    if (slot.has_faulted.exchange(false, std::memory_order_relaxed)) {
      faults_.fetch_sub(1, std::memory_order_relaxed);
      return reinterpret_cast<uint8_t*>(slot.begin.load(std::memory_order_relaxed));
    }
  }
  return nullptr;
}

/// Only what a signal handler may do: atomics and one system call.
bool RegionWindow::replace_by_zeros(uint64_t address) {
  for (Slot& slot : slots_) {
    // Acquire: pairs with the release in fill().
    const uint64_t begin = slot.begin.load(std::memory_order_acquire);
    const uint64_t end = slot.end.load(std::memory_order_relaxed);
    if (begin == 0 || address < begin || address >= end) continue;
    // Acquire: pairs with the fence in fill(). The control thread may have given the slot to
    // another mapping meanwhile: then `end` is not of this `begin`, nor does the address belong to
    // either.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.begin.load(std::memory_order_relaxed) != begin) continue;
    void* const where = reinterpret_cast<void*>(begin);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    // Readable only: the system accounts for pages that could be written, and may have none.
    if (::mmap(where, end - begin, PROT_READ, kFlags, -1, 0) != where) return false;
    if (!slot.has_faulted.exchange(true, std::memory_order_relaxed)) {
      faults_.fetch_add(1, std::memory_order_release);  // pairs with take_faulted()
    }
    return true;
  }
  return false;
}

void RegionWindow::on_fault(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  RegionWindow* window = g_window.load(std::memory_order_acquire);  // pairs with reserve()
  const bool is_mended =
      window != nullptr && window->replace_by_zeros(reinterpret_cast<uint64_t>(info->si_addr));
  if (!is_mended) pass_on(signal, info, context);
  errno = saved_errno;
}

}  // namespace lyre
