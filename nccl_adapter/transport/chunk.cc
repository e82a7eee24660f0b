#include "nccl_adapter/transport/chunk.h"

#include <algorithm>

namespace lyre::nccl_adapter {

bool FrameProgress::take_small_payload(std::span<const uint8_t>* in) {
  const size_t bytes = std::min<size_t>(in->size(), frames.payload_left());
  small_payload.insert(small_payload.end(), in->begin(),
                       in->begin() + static_cast<ptrdiff_t>(bytes));
  frames.payload_taken(static_cast<uint32_t>(bytes));
  *in = in->subspan(bytes);
  return frames.payload_left() == 0;
}

}  // namespace lyre::nccl_adapter
