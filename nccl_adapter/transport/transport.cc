#include "nccl_adapter/transport/transport.h"

#include <utility>

namespace lyre::nccl_adapter {

Transport& Transport::operator=(Transport&& other) noexcept {
  sent_bytes_ = std::exchange(other.sent_bytes_, 0);
  copied_bytes_ = std::exchange(other.copied_bytes_, 0);
  slices_ = other.slices_;
  slice_count_ = std::exchange(other.slice_count_, 0);
  slice_index_ = std::exchange(other.slice_index_, 0);
  released_count_ = std::exchange(other.released_count_, 0);
  slice_offset_ = std::exchange(other.slice_offset_, 0);
  return *this;
}

Io Transport::peek(std::span<const uint8_t>* out) {
  if (slice_index_ == slice_count_) {
    release();
    size_t count = 0;
    const Io io = take_slices(slices_, &count);
    if (io != Io::kOk) return io;
    slice_count_ = count;
    slice_index_ = 0;
    released_count_ = 0;
    slice_offset_ = 0;
  }
  const lyre_slice& slice = slices_[slice_index_];
  *out = {static_cast<const uint8_t*>(slice.data) + slice_offset_, slice.bytes - slice_offset_};
  return Io::kOk;
}

void Transport::consume(size_t bytes) {
  slice_offset_ += bytes;
  if (slice_offset_ < slices_[slice_index_].bytes) return;
  ++slice_index_;
  slice_offset_ = 0;
}

void Transport::release() {
  if (released_count_ == slice_index_) return;
  give_back(std::span(slices_).subspan(released_count_, slice_index_ - released_count_));
  released_count_ = slice_index_;
}

void Transport::release_all() {
  slice_index_ = slice_count_;
  release();
}

}  // namespace lyre::nccl_adapter
