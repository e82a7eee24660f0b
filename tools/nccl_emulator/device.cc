#include "tools/nccl_emulator/device.h"

#include <cstring>
#include <string>

#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

/// NCCL's LL line is two of these: a receiver trusts the data when the flags are this step's.
struct LlWord {
  float data;
  uint32_t flag;
};
static_assert(sizeof(LlWord) * kLlLineElements == kLlLineBytes);

struct SliceBuffers {
  const uint8_t* from;  // received slot
  uint8_t* to;          // slot to be sent
  float* data;
  uint32_t count;
  uint32_t send_flag;
};

void compute_simple(RingOp op, const SliceBuffers& b) {
  const float* __restrict from = reinterpret_cast<const float*>(b.from);
  float* __restrict to = reinterpret_cast<float*>(b.to);
  float* __restrict data = b.data;
  const size_t bytes = b.count * sizeof(float);
  switch (op) {
    case RingOp::kSend:
      std::memcpy(to, data, bytes);
      return;
    case RingOp::kRecvReduceSend:
      for (uint32_t i = 0; i < b.count; ++i) to[i] = from[i] + data[i];
      return;
    case RingOp::kRecvReduceCopySend:
      for (uint32_t i = 0; i < b.count; ++i) {
        const float sum = from[i] + data[i];
        data[i] = sum;
        to[i] = sum;
      }
      return;
    case RingOp::kRecvCopySend:
      std::memcpy(data, from, bytes);
      std::memcpy(to, data, bytes);
      return;
    case RingOp::kRecv:
      std::memcpy(data, from, bytes);
      return;
  }
}

void compute_ll(RingOp op, const SliceBuffers& b) {
  const auto* from = reinterpret_cast<const LlWord*>(b.from);
  auto* to = reinterpret_cast<LlWord*>(b.to);
  for (uint32_t i = 0; i < b.count; ++i) {
    float value = receives(op) ? from[i].data : b.data[i];
    if (op == RingOp::kRecvReduceSend || op == RingOp::kRecvReduceCopySend) value += b.data[i];
    if (sends(op)) to[i] = {value, b.send_flag};
    if (op != RingOp::kSend && op != RingOp::kRecvReduceSend) b.data[i] = value;
  }
  // A line is sent whole: the flag of its unused half must match too.
  if (sends(op) && b.count % kLlLineElements != 0) to[b.count] = {0, b.send_flag};
}

bool has_all_flags(const uint8_t* slot, size_t bytes, uint32_t flag) {
  const auto* words = reinterpret_cast<const LlWord*>(slot);
  for (size_t i = 0; i < bytes / sizeof(LlWord); ++i) {
    // Acquire: the data beside the flag is there. Written by the plugin's copy, or by the kernel.
    if (__atomic_load_n(&words[i].flag, __ATOMIC_ACQUIRE) != flag) return false;
  }
  return true;
}

}  // namespace

void Device::start(Operation* operation, int slice_steps) {
  operation_ = operation;
  plan_ = slot_plan(operation->protocol, slice_steps, operation->collective);
  cursors_.clear();
  for (const Channel* channel : channels_) {
    // Relaxed: this class writes them.
    const uint64_t sent = channel->send.device_steps.value.load(std::memory_order_relaxed);
    const uint64_t received = channel->recv.device_steps.value.load(std::memory_order_relaxed);
    cursors_.push_back({0, sent, sent, received, received});
  }
}

bool Device::is_done() const {
  for (size_t i = 0; i < cursors_.size(); ++i) {
    if (cursors_[i].next < operation_->ring[i].size()) return false;
  }
  return true;
}

bool Device::is_ready(const Channel& channel, const Cursor& cursor, const Slice& slice) const {
  // Both acquires pair with the release in Side::test_oldest: the slot's bytes, or its being free.
  if (receives(slice.op)) {
    if (channel.recv.proxy_steps.value.load(std::memory_order_acquire) == cursor.received) {
      return false;
    }
    // A plugin may complete an LL receive before its bytes are there (kOptionalRecvCompletion).
    if (operation_->protocol == Protocol::kLl &&
        !has_all_flags(received_slot(channel, cursor), wire_bytes(Protocol::kLl, slice.count),
                       recv_flag(cursor))) {
      return false;
    }
  }
  const auto depth = static_cast<uint64_t>(plan_.depth);
  return !sends(slice.op) ||
         cursor.sent - channel.send.proxy_steps.value.load(std::memory_order_acquire) < depth;
}

size_t Device::poll() {
  size_t work = 0;
  for (size_t i = 0; i < channels_.size(); ++i) {
    Cursor& cursor = cursors_[i];
    const std::vector<Slice>& slices = operation_->ring[i];
    if (cursor.next == slices.size()) continue;
    const Slice& slice = slices[cursor.next];
    if (!is_ready(*channels_[i], cursor, slice)) continue;
    run_slice(*channels_[i], cursor, slice);
    ++cursor.next;
    ++work;
  }
  return work;
}

uint32_t Device::recv_flag(const Cursor& cursor) const {
  return operation_->flag_base + static_cast<uint32_t>(cursor.received - cursor.first_received) + 1;
}

const uint8_t* Device::received_slot(const Channel& channel, const Cursor& cursor) const {
  const size_t index = cursor.received % static_cast<size_t>(plan_.depth);
  return channel.recv.staging.slots(operation_->protocol) + index * plan_.slice_bytes;
}

void Device::check_length(const Channel& channel, const Cursor& cursor, const Slice& slice) const {
  if (operation_->protocol == Protocol::kLl) return;  // the flags have been checked
  const size_t got = channel.recv.slot_bytes[cursor.received % kSlots];
  const size_t expected = wire_bytes(operation_->protocol, slice.count);
  if (got == expected) return;
  throw Failure("message " + std::to_string(cursor.received) + " from rank " +
                std::to_string(channel.recv.tag) + " has " + std::to_string(got) +
                " bytes instead of " + std::to_string(expected));
}

void Device::run_slice(Channel& channel, Cursor& cursor, const Slice& slice) {
  if (receives(slice.op)) check_length(channel, cursor, slice);
  const size_t send_index = cursor.sent % static_cast<size_t>(plan_.depth);
  const SliceBuffers buffers{
      .from = received_slot(channel, cursor),
      .to = channel.send.staging.slots(operation_->protocol) + send_index * plan_.slice_bytes,
      .data = operation_->data.data() + slice.offset,
      .count = slice.count,
      .send_flag =
          operation_->flag_base + static_cast<uint32_t>(cursor.sent - cursor.first_sent) + 1,
  };
  if (operation_->protocol == Protocol::kLl) {
    compute_ll(slice.op, buffers);
  } else {
    compute_simple(slice.op, buffers);
  }
  if (sends(slice.op)) {
    channel.send.slot_bytes[cursor.sent % kSlots] =
        static_cast<uint32_t>(wire_bytes(operation_->protocol, slice.count));
    // pairs with the acquire in Side::poll_send: the slot is written
    channel.send.device_steps.value.store(++cursor.sent, std::memory_order_release);
  }
  if (receives(slice.op)) {
    // pairs with the acquire in Side::poll_recv: the slot may be overwritten
    channel.recv.device_steps.value.store(++cursor.received, std::memory_order_release);
  }
}

}  // namespace lyre::nccl_emulator
