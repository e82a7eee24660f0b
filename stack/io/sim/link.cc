#include "stack/io/sim/link.h"

#include <algorithm>
#include <cstring>

#include "stack/base/check.h"
#include "stack/io/sim/queue.h"

namespace lyre::io::sim {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

}  // namespace

Link::Link(const LinkOptions& options) : options_(options), rng_(options.seed) {
  for (size_t end = 0; end < ports_.size(); ++end) {
    Port& port = ports_[end];
    port.mac.bytes = {2, 0, 0, 0, 0x51, static_cast<uint8_t>(end + 1)};  // locally administered
    port.hash = FlowHash(rng_.next());
    port.frames.resize(options.frames_max);
    port.bytes.resize(size_t{options.frames_max} * room_bytes());
    port.free.reserve(options.frames_max);
    port.under_way.reserve(options.frames_max);
    for (uint32_t i = options.frames_max; i > 0; --i) port.free.push_back(i - 1);
  }
}

Link::~Link() = default;

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

/// Sends a filled frame on its way, or to where frames go that are lost.
void Link::dispatch(int end, uint32_t frame) {
  Port& port = ports_[end];
  const Faults& faults = options_.faults;
  Frame& sent = port.frames[frame];
  ++port.counters.carried;
  if (options_.rate_bytes_per_s > 0) {
    const auto bits_out = static_cast<int64_t>(sent.length) * kNanosPerSecond /
                          static_cast<int64_t>(options_.rate_bytes_per_s);
    port.free_at = later(port.free_at, now_) + nanos(bits_out);
  } else {
    port.free_at = now_;
  }
  if (!is_up_ || rng_.chance_ppm(faults.loss_ppm)) {
    ++port.counters.lost;
    give_back(end, frame);
    return;
  }
  if (rng_.chance_ppm(faults.duplicate_ppm)) duplicate(end, frame);
  if (rng_.chance_ppm(faults.corrupt_ppm) && sent.length > 14) {
    const uint64_t bit = rng_.below((sent.length - 14) * uint64_t{8});
    bytes_of(port, frame)[14 + bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    ++port.counters.corrupted;
  }
  put_under_way(end, frame);
}

void Link::put_under_way(int end, uint32_t frame) {
  Port& port = ports_[end];
  const Faults& faults = options_.faults;
  Frame& sent = port.frames[frame];
  sent.due = port.free_at + options_.delay;
  sent.order = order_++;
  if (rng_.chance_ppm(faults.reorder_ppm) && faults.reorder_delay.value > 0) {
    const uint64_t bound = static_cast<uint64_t>(faults.reorder_delay.value);
    sent.due += nanos(1 + static_cast<int64_t>(rng_.below(bound)));
    ++port.counters.reordered;
  }
  const auto is_later = [&port](uint32_t a, uint32_t b) {
    const Frame& x = port.frames[a];
    const Frame& y = port.frames[b];
    return x.due != y.due ? x.due > y.due : x.order > y.order;
  };
  port.under_way.push_back(frame);
  std::push_heap(port.under_way.begin(), port.under_way.end(), is_later);
}

void Link::duplicate(int end, uint32_t frame) {
  const uint32_t copy = take_frame(end);
  if (copy == kNone) return;
  Port& port = ports_[end];
  port.frames[copy].length = port.frames[frame].length;
  std::memcpy(bytes_of(port, copy), bytes_of(port, frame), port.frames[frame].length);
  ++port.counters.duplicated;
  put_under_way(end, copy);
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
