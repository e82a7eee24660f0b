#include "nccl_adapter/transport/verbs/places.h"

namespace lyre::nccl_adapter {

bool Places::on_place(const FrameHeader& place) {
  if (!are_used_ || is_receiver_) return false;
  places_[place.message % kRequestsPerComm] = place;
  return true;
}

const FrameHeader* Places::find(const Chunk& chunk) const {
  const FrameHeader& place = places_[chunk.header.message % kRequestsPerComm];
  const bool has_place = place.type == FrameType::kPlace && place.message == chunk.header.message &&
                         place.message_bytes >= chunk.header.message_bytes;
  const bool is_written = has_place && !chunk.is_again && chunk.memory != nullptr &&
                          chunk.header.bytes > 0 && registrations_.find(chunk.memory) != nullptr;
  return is_written ? &place : nullptr;
}

std::optional<FrameHeader> Places::expose(uint64_t message, const uint8_t* data, uint64_t bytes,
                                          const Memory* memory) {
  const ibv_mr* mr = registrations_.find(memory);
  if (mr == nullptr) return std::nullopt;
  return FrameHeader{.type = FrameType::kPlace,
                     .bytes = mr->rkey,
                     .message = message,
                     .message_bytes = bytes,
                     .offset = reinterpret_cast<uintptr_t>(data)};
}

}  // namespace lyre::nccl_adapter
