#include "stack/io/dpdk/memif_wait.h"

#include <fcntl.h>
#include <poll.h>
#include <rte_ethdev.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {
namespace {

// The layout of a ring in shared memory (memif 2.0): a header of two cache lines, then descriptors.
constexpr uint32_t kCookie = 0x3E31F20;
constexpr size_t kFlagsAt = 4;
constexpr uint16_t kNoInterrupts = 1;
constexpr size_t kHeaderBytes = 128;
constexpr size_t kDescriptorBytes = 16;
constexpr uint32_t kLog2DescriptorsMax = 14;
/// The part of a region that is searched: the rings of 128 queue pairs of the largest size.
constexpr size_t kMappedBytesMax = size_t{64} << 20;

bool has_cookie(std::span<const uint8_t> memory, size_t at) {
  if (at + kHeaderBytes > memory.size()) return false;
  uint32_t cookie = 0;
  std::memcpy(&cookie, memory.data() + at, sizeof(cookie));
  return cookie == kCookie;
}

/// Rings lie one behind the other, and all have the same size. A connection has at least two.
std::optional<size_t> ring_stride(std::span<const uint8_t> memory) {
  if (!has_cookie(memory, 0)) return std::nullopt;
  for (uint32_t log2 = 0; log2 <= kLog2DescriptorsMax; ++log2) {
    const size_t stride = kHeaderBytes + (kDescriptorBytes << log2);
    if (has_cookie(memory, stride)) return stride;
  }
  return std::nullopt;
}

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

/// The driver does not set this flag. Lyre sets it for all descriptors of its own, and shares some
/// of these with clients, which could make a write block.
bool is_own(int fd) {
  const int flags = fcntl(fd, F_GETFD);
  return flags < 0 || (flags & FD_CLOEXEC) != 0;
}

bool is_nonblocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

}  // namespace

bool MemifWait::arm() {
  if (found_ring_ != nullptr && !is_current()) forget();
  if (found_ring_ == nullptr && !find()) return false;
  flags().store(0, std::memory_order_relaxed);
  // Full fence: orders the flag before the look at the ring that follows. The peer's driver has no
  // fence between its ring index and its load of the flag, so that look can miss a packet that
  // is under way: hence the second look of PacketIo::arm().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

/// Relaxed: a peer that rings once too often wakes no thread.
void MemifWait::disarm() {
  if (found_ring_ != nullptr) flags().store(kNoInterrupts, std::memory_order_relaxed);
}

std::atomic_ref<uint16_t> MemifWait::flags() const {
  return std::atomic_ref(*reinterpret_cast<uint16_t*>(found_ring_ + kFlagsAt));
}

/// The driver closes its descriptor when the connection ends.
bool MemifWait::is_current() const {
  struct stat status = {};
  return fstat(driver_region_, &status) == 0 && status.st_ino == region_inode_;
}

bool MemifWait::is_link_up() const {
  rte_eth_link link = {};
  return rte_eth_link_get_nowait(ring_.port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/// Searches are repeated less and less often where they fail.
bool MemifWait::find() {
  if (!is_link_up()) return false;
  if (arms_to_skip_ > 0) {
    --arms_to_skip_;
    return false;
  }
  std::vector<int> eventfds = descriptors_named("anon_inode:[eventfd]");
  std::erase_if(eventfds, is_own);
  const std::vector<int> regions = descriptors_named("/memfd:memif");
  // The expected eventfds are tried first: one port's search must not try all eventfds on the
  // memory of another port.
  for (const size_t trials_max : {size_t{1}, kTrialsMax}) {
    for (const int region : regions) {
      if (!find_in(region, eventfds, trials_max)) continue;
      next_skip_ = 1;
      return true;
    }
  }
  arms_to_skip_ = next_skip_;
  next_skip_ = std::min(next_skip_ * 2, kArmsSkippedMax);
  return false;
}

/// The client's rings, by which the server receives, come first in memory. The eventfds were opened
/// after the memory and in the order of the rings.
bool MemifWait::find_in(int region, const std::vector<int>& eventfds, size_t trials_max) {
  if (eventfds.empty() || !map(region)) return false;
  const std::span<const uint8_t> memory(mapping_.base, mapping_.bytes);
  const size_t number = ring_.queue_id + (ring_.is_server ? 0u : ring_.queue_count);
  const std::optional<size_t> stride = ring_stride(memory);
  if (!stride || !has_cookie(memory, number * *stride)) {
    forget();
    return false;
  }
  found_ring_ = mapping_.base + number * *stride;
  const auto after = std::upper_bound(eventfds.begin(), eventfds.end(), region);
  const auto expected = static_cast<size_t>(after - eventfds.begin()) + number;
  const size_t trials = std::min(trials_max, eventfds.size());
  // The driver has set the flag when it connected. A ring without it is that of a port that sleeps.
  for (size_t i = 0; i < trials && flags().load(std::memory_order_relaxed) == kNoInterrupts; ++i) {
    if (take(eventfds[(expected + i) % eventfds.size()])) return true;
  }
  forget();
  return false;
}

/// Duplicates the descriptor, so that this object's stays open when the driver closes its own.
bool MemifWait::take(int eventfd) {
  const int own = fcntl(eventfd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return false;
  if (is_nonblocking(own) && is_confirmed(own) && edges_.add(own)) {
    eventfd_ = own;
    return true;
  }
  close(own);
  return false;
}

/// An eventfd that is not the ring's is written once, which wakes its reader for one poll.
bool MemifWait::is_confirmed(int eventfd) {
  constexpr int kTriesMax = 3;  // the peer may ring at any time
  for (int i = 0; i < kTriesMax; ++i) {
    flags().store(kNoInterrupts, std::memory_order_relaxed);
    if (eventfd_write(eventfd, 1) != 0 || driver_reads(eventfd)) return false;
    flags().store(0, std::memory_order_relaxed);
    const bool is_read = driver_reads(eventfd);
    flags().store(kNoInterrupts, std::memory_order_relaxed);
    if (is_read) return true;
  }
  return false;
}

/// Whether a receive call, for no packet, empties `eventfd`.
bool MemifWait::driver_reads(int eventfd) {
  rte_mbuf* none[1];
  driver_call(calls_, [&] { return rte_eth_rx_burst(ring_.port_id, ring_.queue_id, none, 0); });
  return !is_readable(eventfd);
}

/// Maps the rings a second time, because the driver unmaps its own mapping in another thread when
/// the connection ends. The seal keeps a peer from shrinking the file under the mapping.
bool MemifWait::map(int region) {
  const int own = fcntl(region, F_DUPFD_CLOEXEC, 0);
  struct stat status = {};
  if (own < 0) return false;
  const int seals = fcntl(own, F_GET_SEALS);
  void* base = MAP_FAILED;
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(own, &status) == 0 &&
      status.st_size > 0) {
    mapping_.bytes = std::min(static_cast<size_t>(status.st_size), kMappedBytesMax);
    base = mmap(nullptr, mapping_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
  }
  close(own);
  if (base == MAP_FAILED) return false;
  mapping_.base = static_cast<uint8_t*>(base);
  driver_region_ = region;
  region_inode_ = status.st_ino;
  return true;
}

void MemifWait::forget() {
  if (eventfd_ >= 0) {
    edges_.remove(eventfd_);
    close(eventfd_);
  }
  if (mapping_.base != nullptr) munmap(mapping_.base, mapping_.bytes);
  mapping_ = {};
  found_ring_ = nullptr;
  eventfd_ = -1;
}

}  // namespace lyre::io::dpdk
