#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "stack/base/page_size.h"
#include "stack/base/result.h"
#include "stack/worker/inbox.h"

namespace lyre {

/// One range of addresses in which clients' registered memory is mapped side by side, so that an
/// IOMMU sees few large maps. Where pages of such memory, or of memory that is guarded, cannot be
/// had, because a client took them away or the system has none for a hole (vm.overcommit_memory =
/// 2, hugepages), the next reader gets zeros, and a writer SIGSEGV; without this class, SIGBUS
/// would end the daemon. A fault elsewhere goes to the handler that was there before: DPDK's, for
/// registers of a device that was removed. That one is therefore installed first; it does not
/// recognize a handler that was there before it (eal_dev.c compares sa_flags with SA_SIGINFO, and
/// glibc adds SA_RESTORER on x86-64). Thread: the control thread; any thread may fault. Owner: all
/// mappings end with this object. A process has one such object.
class RegionWindow {
 public:
  /// Of addresses(): they begin and end at multiples of it.
  static constexpr uint64_t kAlignment = uint64_t{1} << 30;

  /// Reserves addresses, which costs no memory, and catches SIGBUS from then on.
  /// `page_bytes`: the smallest pages that can be mapped. Fails: the system gives no such range.
  static Result<std::unique_ptr<RegionWindow>> reserve(uint64_t page_bytes = system_page_bytes());
  ~RegionWindow();
  RegionWindow(const RegionWindow&) = delete;
  RegionWindow& operator=(const RegionWindow&) = delete;

  /// Maps [offset, offset + bytes) of the file; for writing, too, where that is allowed, because
  /// IOMMU maps need it.
  /// Fails: EINVAL not whole pages of `page_bytes`, or pages that this window cannot map; ENOSPC
  /// the window is full; or the errno of the mapping.
  Result<uint8_t*> map(int fd, uint64_t offset, uint64_t bytes, uint64_t page_bytes);
  /// REQUIRES: `base` came from map(), and no thread reads it any more.
  void unmap(uint8_t* base);

  /// Zeros also for other memory, which is only read. Fails: ENOSPC the window is full.
  Status guard(const uint8_t* base, uint64_t bytes);
  /// REQUIRES: `base` is guarded.
  void unguard(const uint8_t* base);

  /// All addresses that map() gives out.
  std::span<const uint8_t> addresses() const {
    return {reinterpret_cast<const uint8_t*>(first_), last_ - first_};
  }

  /// A mapping that lost pages and reads as zeros since then, each once; nullptr: none.
  uint8_t* take_faulted();
  uint32_t mapped_count() const { return mapped_count_; }

 private:
  /// Read by the signal handler: `begin` is stored last and cleared first.
  struct Slot {
    std::atomic<uint64_t> begin{0};
    std::atomic<uint64_t> end{0};
    std::atomic<bool> has_faulted{false};
  };
  explicit RegionWindow(uint64_t page_bytes) : page_bytes_(page_bytes) {}
  static void on_fault(int signal, siginfo_t* info, void* context);
  Status catch_faults();
  Slot* find_slot(uint64_t begin);
  static void fill(Slot& slot, uint64_t begin, uint64_t bytes);
  void clear(Slot& slot);
  bool replace_by_zeros(uint64_t address);
  uint64_t take_range(uint64_t bytes, uint64_t alignment);
  void give_back(uint64_t begin, uint64_t bytes);
  void take_back(void* where, uint64_t bytes);

  uint64_t page_bytes_;
  uint64_t begin_ = 0;
  uint64_t bytes_ = 0;
  uint64_t first_ = 0;                 ///< the part of it that is used
  uint64_t last_ = 0;                  ///< its end
  std::map<uint64_t, uint64_t> free_;  ///< begin to bytes; neighbours are merged
  std::array<Slot, worker::kRegionsMax> slots_;
  uint32_t mapped_count_ = 0;
  std::atomic<uint32_t> faults_{0};
};

}  // namespace lyre
