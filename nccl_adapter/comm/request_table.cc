#include "nccl_adapter/comm/request_table.h"

#include <utility>

namespace lyre::nccl_adapter {

RequestTable::RequestTable(Comm* comm) {
  for (size_t i = 0; i < kRequestsPerComm; ++i) {
    slots_[i].slot = static_cast<uint8_t>(i);
    slots_[i].comm = comm;
    free_[i] = static_cast<uint8_t>(kRequestsPerComm - 1 - i);
  }
}

Request* RequestTable::post(void* data, uint64_t bytes) {
  if (free_count_ == 0) return nullptr;
  Request& request = slots_[free_[--free_count_]];
  request.state = Request::State::kActive;
  request.data = static_cast<uint8_t*>(data);
  request.bytes = bytes;
  request.moved_bytes = 0;
  request.memory = nullptr;
  request.is_kept = false;
  request.is_in_queue_pair = false;
  // An active message holds a slot, so at most kRequestsPerComm are active and order_ never laps.
  order_[posted_++ % kRequestsPerComm] = request.slot;
  return &request;
}

void RequestTable::finish_oldest() {
  Request& request = at(finished_++);
  finished_bytes_ += request.bytes;
  const Request::State before = std::exchange(request.state, Request::State::kDone);
  if (before == Request::State::kTold) free(&request);
}

void RequestTable::release(Request* request) {
  if (request->state == Request::State::kLetGo) {
    request->state = Request::State::kTold;
  } else {
    free(request);
  }
}

size_t RequestTable::untold() const {
  size_t count = 0;
  for (uint64_t m = finished_; m < posted_; ++m) {
    if (at(m).state != Request::State::kTold) ++count;
  }
  return count;
}

void RequestTable::free(Request* request) {
  request->state = Request::State::kFree;
  free_[free_count_++] = request->slot;
}

uint64_t RequestTable::outstanding_bytes() const {
  uint64_t bytes = 0;
  for (uint64_t m = finished_; m < posted_; ++m) bytes += at(m).bytes;
  return bytes;
}

bool RequestTable::touches(const uint8_t* base, uint64_t bytes) const {
  for (uint64_t m = finished_; m < posted_; ++m) {
    const Request& request = at(m);
    if (request.bytes == 0) continue;  // its address may be anywhere
    if (request.data < base + bytes && base < request.data + request.bytes) return true;
  }
  return false;
}

}  // namespace lyre::nccl_adapter
