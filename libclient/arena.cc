#include "libclient/arena.h"

#include <algorithm>
#include <bit>

namespace lyre::client {
namespace {

constexpr uint32_t pages_of(uint32_t order) { return 1u << order; }

/// The smallest order whose blocks hold `bytes`.
uint32_t order_for(uint64_t bytes) {
  const uint64_t pages = (bytes + Arena::kBlockBytesMin - 1) / Arena::kBlockBytesMin;
  return static_cast<uint32_t>(std::bit_width(pages - 1));
}

}  // namespace

Arena::Arena(uint64_t bytes)
    : pages_(static_cast<uint32_t>(bytes / kBlockBytesMin)),
      kind_(pages_),
      next_(pages_),
      previous_(pages_) {
  first_.fill(kNoPage);
  // From the end, so that the lowest block of each size is handed out first.
  uint32_t end = pages_;
  while (end > 0) {
    uint32_t order = kOrders - 1;
    while ((end & (pages_of(order) - 1)) != 0 || pages_of(order) > end) --order;
    end -= pages_of(order);
    put(end, order);
    free_bytes_ += kBlockBytesMin << order;
  }
}

void Arena::put(uint32_t page, uint32_t order) {
  kind_[page] = static_cast<uint8_t>(kFreeBit | (order + 1));
  next_[page] = first_[order];
  previous_[page] = kNoPage;
  if (first_[order] != kNoPage) previous_[first_[order]] = page;
  first_[order] = page;
}

void Arena::take_out(uint32_t page, uint32_t order) {
  if (previous_[page] != kNoPage) {
    next_[previous_[page]] = next_[page];
  } else {
    first_[order] = next_[page];
  }
  if (next_[page] != kNoPage) previous_[next_[page]] = previous_[page];
  kind_[page] = 0;
}

uint64_t Arena::alloc(uint64_t bytes) {
  if (bytes == 0 || bytes > kBlockBytesMax || pages_ == 0) return kNone;
  const uint32_t wanted = order_for(bytes);
  uint32_t order = wanted;
  while (order < kOrders && first_[order] == kNoPage) ++order;
  if (order == kOrders) return kNone;
  const uint32_t page = first_[order];
  take_out(page, order);
  while (order > wanted) {
    --order;
    put(page + pages_of(order), order);
  }
  kind_[page] = static_cast<uint8_t>(wanted + 1);
  free_bytes_ -= kBlockBytesMin << wanted;
  return uint64_t{page} * kBlockBytesMin;
}

uint64_t Arena::largest_block_bytes() const {
  return std::min(std::bit_floor(bytes()), kBlockBytesMax);
}

uint64_t Arena::block_bytes_for(uint64_t bytes) { return kBlockBytesMin << order_for(bytes); }

uint64_t Arena::block_bytes(uint64_t offset) const {
  if (offset % kBlockBytesMin != 0 || offset / kBlockBytesMin >= pages_) return 0;
  const uint8_t kind = kind_[offset / kBlockBytesMin];
  if (kind == 0 || (kind & kFreeBit) != 0) return 0;
  return kBlockBytesMin << (kind - 1);
}

bool Arena::free(uint64_t offset) {
  const uint64_t bytes = block_bytes(offset);
  if (bytes == 0) return false;
  auto page = static_cast<uint32_t>(offset / kBlockBytesMin);
  uint32_t order = kind_[page] - 1u;
  free_bytes_ += bytes;
  kind_[page] = 0;
  while (order + 1 < kOrders) {
    const uint32_t buddy = page ^ pages_of(order);
    if (buddy >= pages_ || kind_[buddy] != (kFreeBit | (order + 1))) break;
    take_out(buddy, order);
    page &= ~pages_of(order);
    ++order;
  }
  put(page, order);
  return true;
}

}  // namespace lyre::client
