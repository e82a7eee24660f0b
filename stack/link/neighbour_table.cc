#include "stack/link/neighbour_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "stack/base/check.h"
#include "stack/base/rng.h"

namespace lyre::link {

NeighbourTable::NeighbourTable(uint64_t seed, uint32_t capacity, uint8_t port, BoardSeat& seat)
    : seed_(seed),
      port_(port),
      seat_(&seat),
      neighbours_(capacity),
      buckets_(std::bit_ceil(std::max(capacity, 1u)), kNone) {
  heap_.reserve(capacity);
}

const uint32_t& NeighbourTable::bucket_of(const IpAddress& ip) const {
  uint64_t words[2];
  std::memcpy(words, ip.bytes.data(), sizeof words);
  const uint64_t high = Rng(seed_ ^ words[0]).next();
  return buckets_[Rng(high ^ words[1]).next() & (buckets_.size() - 1)];
}

uint32_t& NeighbourTable::bucket_of(const IpAddress& ip) {
  return const_cast<uint32_t&>(std::as_const(*this).bucket_of(ip));
}

uint32_t NeighbourTable::find(const IpAddress& ip) const {
  uint32_t index = bucket_of(ip);
  while (index != kNone && !(neighbours_[index].ip == ip)) {
    index = neighbours_[index].next_in_bucket;
  }
  return index;
}

uint32_t NeighbourTable::add(const IpAddress& ip, bool is_wanted) {
  if (neighbours_.room() == 0) {
    const uint32_t oldest = idle_.front();
    if (oldest == kNone || (neighbours_[oldest].is_wanted && !is_wanted)) return kNone;
    remove(oldest);
  }
  const uint32_t index = neighbours_.take();
  Neighbour& added = neighbours_[index];
  added.ip = ip;
  added.is_wanted = is_wanted;
  uint32_t& head = bucket_of(ip);
  added.next_in_bucket = head;
  head = index;
  if (is_wanted) {
    idle_.push_back(neighbours_, index);
  } else {
    idle_.push_front(neighbours_, index);
  }
  seat_->add(port_, ip);
  seat_->begin_wait(port_, ip);
  return index;
}

void NeighbourTable::remove(uint32_t index) {
  const Neighbour& removed = neighbours_[index];
  // Each caller has looked for holders, or took it from the list of those without.
  LYRE_CHECK(removed.holders == 0);
  set_deadline(index, kNever);
  if (!removed.has_mac()) seat_->end_wait(port_, removed.ip);
  seat_->remove(port_, removed.ip);
  idle_.remove(neighbours_, index);
  uint32_t* link = &bucket_of(removed.ip);
  while (*link != index) link = &neighbours_[*link].next_in_bucket;
  *link = removed.next_in_bucket;
  neighbours_.give_back(index);
}

void NeighbourTable::reset() {
  for (uint32_t index = 0; index < neighbours_.touched(); ++index) {
    if (!neighbours_.is_taken(index)) continue;
    if (neighbours_[index].holders == 0) {
      remove(index);
    } else {
      set_state(index, Neighbour::State::kUnasked);
      set_deadline(index, kNever);
    }
  }
}

void NeighbourTable::set_state(uint32_t index, Neighbour::State state) {
  Neighbour& changed = neighbours_[index];
  const bool had_mac = changed.has_mac();
  changed.state = state;
  // An address that has answered is a host's, also when it is asked for again.
  if (changed.has_mac()) changed.is_urgent = true;
  if (state == Neighbour::State::kUnreachable) changed.is_urgent = false;
  if (had_mac == changed.has_mac()) return;
  if (had_mac) {
    seat_->begin_wait(port_, changed.ip);
  } else {
    seat_->end_wait(port_, changed.ip);
  }
}

void NeighbourTable::want(uint32_t index) {
  neighbours_[index].is_wanted = true;
  if (neighbours_[index].holders > 0 || idle_.back() == index) return;
  idle_.remove(neighbours_, index);
  idle_.push_back(neighbours_, index);
}

void NeighbourTable::hold(uint32_t index) {
  ++holders_;
  if (neighbours_[index].holders++ == 0) idle_.remove(neighbours_, index);
}

void NeighbourTable::release(uint32_t index) {
  // Session::holds_neighbour says whether there is a hold to release.
  LYRE_CHECK(neighbours_[index].holders > 0);
  --holders_;
  if (--neighbours_[index].holders == 0) idle_.push_back(neighbours_, index);
}

void NeighbourTable::set_deadline(uint32_t index, Nanos at) {
  Neighbour& changed = neighbours_[index];
  const uint32_t old_place = changed.heap_place;
  changed.deadline = at;
  if (at == kNever) {
    if (old_place == kNone) return;
    const uint32_t last = heap_.back();
    heap_.pop_back();
    changed.heap_place = kNone;
    if (last == index) return;
    place(old_place, last);
  } else if (old_place == kNone) {
    heap_.push_back(index);
    changed.heap_place = static_cast<uint32_t>(heap_.size() - 1);
  }
  const uint32_t moved = old_place == kNone ? changed.heap_place : old_place;
  rise(moved);
  sink(moved);
}

Nanos NeighbourTable::next_deadline() const {
  return heap_.empty() ? kNever : neighbours_[heap_.front()].deadline;
}

void NeighbourTable::place(uint32_t heap_place, uint32_t index) {
  heap_[heap_place] = index;
  neighbours_[index].heap_place = heap_place;
}

bool NeighbourTable::is_before(uint32_t a, uint32_t b) const {
  return neighbours_[heap_[a]].deadline < neighbours_[heap_[b]].deadline;
}

void NeighbourTable::rise(uint32_t heap_place) {
  while (heap_place > 0) {
    const uint32_t parent = (heap_place - 1) / 2;
    if (!is_before(heap_place, parent)) return;
    const uint32_t index = heap_[heap_place];
    place(heap_place, heap_[parent]);
    place(parent, index);
    heap_place = parent;
  }
}

void NeighbourTable::sink(uint32_t heap_place) {
  for (;;) {
    uint32_t first = heap_place;
    for (uint32_t child = 2 * heap_place + 1; child <= 2 * heap_place + 2; ++child) {
      if (child < heap_.size() && is_before(child, first)) first = child;
    }
    if (first == heap_place) return;
    const uint32_t index = heap_[heap_place];
    place(heap_place, heap_[first]);
    place(first, index);
    heap_place = first;
  }
}

}  // namespace lyre::link
