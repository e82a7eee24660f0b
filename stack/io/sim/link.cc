#include "stack/io/sim/link.h"

#include <algorithm>
#include <cstring>

#include "stack/base/check.h"
#include "stack/io/sim/frame.h"
#include "stack/io/sim/queue.h"

namespace lyre::io::sim {
namespace {

PathOptions path_of(const LinkOptions& options) {
  return {.delay = options.delay,
          .rate_bytes_per_s = options.rate_bytes_per_s,
          .loss_ppm = options.faults.loss_ppm,
          .duplicate_ppm = options.faults.duplicate_ppm,
          .corrupt_ppm = options.faults.corrupt_ppm,
          .reorder_ppm = options.faults.reorder_ppm,
          .reorder_delay = options.faults.reorder_delay};
}

}  // namespace

Link::Link(const LinkOptions& options)
    : options_(options),
      ports_{Port(path_of(options), options.seed * 4),
             Port(path_of(options), options.seed * 4 + 1)} {
  for (size_t end = 0; end < ports_.size(); ++end) {
    Port& port = ports_[end];
    port.mac.bytes = {2, 0, 0, 0, 0x51, static_cast<uint8_t>(end + 1)};  // locally administered
    port.hash = FlowHash(options.seed * 4 + 2 + end);
    port.frames.resize(options.frames_max);
    port.bytes.reset(new uint8_t[size_t{options.frames_max} * room_bytes()]);
    port.free.reserve(options.frames_max);
    port.under_way.reserve(options.frames_max);
    for (uint32_t i = options.frames_max; i > 0; --i) port.free.push_back(i - 1);
  }
}

Link::~Link() = default;
Link::Port::Port(const PathOptions& options, uint64_t seed) : path(options, seed) {}
Link::Port::~Port() = default;

PacketIo& Link::add_queue(int end, Memory& memory, uint8_t port_index) {
  auto& queues = ports_[end].queues;
  queues.push_back(std::make_unique<Queue>(*this, end, memory, port_index, ports_[end].mac));
  return *queues.back();
}

PacketIo& Link::queue(int end, uint32_t index) { return *ports_[end].queues[index]; }

uint32_t Link::take_frame(int end) {
  Port& port = ports_[end];
  if (port.free.empty()) return kNone;
  const uint32_t frame = port.free.back();
  port.free.pop_back();
  return frame;
}

void Link::take_away(int end, uint32_t frames) {
  Port& port = ports_[end];
  port.frames_left = frames;
  if (frames == 0) port.device = Device::kAway;
}

void Link::close_driver(int end) {
  ports_[end].device = Device::kClosed;
  for (const auto& queue : ports_[end].queues) queue->close();
}

void Link::bring_back(int end) {
  ports_[end].device = Device::kPresent;
  ports_[end].frames_left = kNone;
}

void Link::bring_back(int end, std::span<Memory* const> memories) {
  for (size_t i = 0; i < memories.size(); ++i) ports_[end].queues[i]->move_to(*memories[i]);
  bring_back(end);
}

/// Counts down to the end of a device that is to be taken away.
bool Link::can_send(Port& port) {
  if (port.device != Device::kPresent) return false;
  if (port.frames_left != kNone && port.frames_left-- == 0) {
    port.frames_left = kNone;
    port.device = Device::kAway;
  }
  return port.device == Device::kPresent && is_up_ && !port.is_cut;
}

/// Queues a filled frame for arrival, or counts it as lost.
void Link::dispatch(int end, uint32_t frame) {
  Port& port = ports_[end];
  Frame& sent = port.frames[frame];
  const Fate fate = can_send(port) ? port.path.on_frame(sent.length, now_) : port.path.lose();
  if (fate.corrupt_bit != Fate::kNoBit) {
    bytes_of(port, frame)[fate.corrupt_bit / 8] ^= static_cast<uint8_t>(1u << fate.corrupt_bit % 8);
  }
  if (fate.is_marked) mark_congestion({bytes_of(port, frame), sent.length});
  if (fate.copies == 0) return give_back(end, frame);
  if (fate.copies == 2) duplicate(end, frame, fate.due[1]);
  put_under_way(end, frame, fate.due[0]);
}

void Link::put_under_way(int end, uint32_t frame, Nanos due) {
  Port& port = ports_[end];
  port.frames[frame].due = due;
  port.frames[frame].order = order_++;
  const auto is_later = [&port](uint32_t a, uint32_t b) {
    const Frame& x = port.frames[a];
    const Frame& y = port.frames[b];
    return x.due != y.due ? x.due > y.due : x.order > y.order;
  };
  port.under_way.push_back(frame);
  std::push_heap(port.under_way.begin(), port.under_way.end(), is_later);
}

void Link::duplicate(int end, uint32_t frame, Nanos due) {
  const uint32_t copy = take_frame(end);
  if (copy == kNone) return;
  Port& port = ports_[end];
  port.frames[copy].length = port.frames[frame].length;
  std::memcpy(bytes_of(port, copy), bytes_of(port, frame), port.frames[frame].length);
  put_under_way(end, copy, due);
}

void Link::advance(Nanos now) {
  now_ = later(now_, now);
  for (int end = 0; end < 2; ++end) {
    Port& port = ports_[end];
    const auto is_later = [&port](uint32_t a, uint32_t b) {
      const Frame& x = port.frames[a];
      const Frame& y = port.frames[b];
      return x.due != y.due ? x.due > y.due : x.order > y.order;
    };
    while (!port.under_way.empty() && port.frames[port.under_way.front()].due <= now_) {
      const uint32_t frame = port.under_way.front();
      std::pop_heap(port.under_way.begin(), port.under_way.end(), is_later);
      port.under_way.pop_back();
      arrive(end, frame);
    }
  }
}

void Link::arrive(int end, uint32_t frame) {
  Port& sender = ports_[end];
  Port& receiver = ports_[1 - end];
  if (receiver.device != Device::kPresent) return give_back(end, frame);
  LYRE_CHECK(!receiver.queues.empty());
  const uint32_t hash = receiver.hash.hash({bytes_of(sender, frame), sender.frames[frame].length});
  const auto count = static_cast<uint32_t>(receiver.queues.size());
  receiver.queues[receiver.hash.queue_of(hash, count)]->append(frame);
}

Nanos Link::next_deadline() const {
  Nanos first = kNever;
  for (const Port& port : ports_) {
    if (!port.under_way.empty()) {
      first = earlier(first, port.frames[port.under_way.front()].due);
    }
  }
  return first;
}

}  // namespace lyre::io::sim
