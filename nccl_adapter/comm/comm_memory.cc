#include "nccl_adapter/comm/comm_memory.h"

#include <algorithm>
#include <utility>

#include "nccl_adapter/transport/verbs/devices.h"

namespace lyre::nccl_adapter {

Registration* CommMemory::add(const void* data, uint64_t bytes, bool is_sender) {
  Registration made{static_cast<const uint8_t*>(data), bytes, nullptr, nullptr};
  if (is_sender) {
    made.memory = ground_.environment->take_memory(data, bytes);
  } else if (ground_.environment->verbs() != nullptr && bytes > 0) {
    made.own = std::make_unique<Memory>(
        Memory{.data = data, .bytes = bytes, .users = 1, .is_exposed = true});
    made.memory = made.own.get();
  }
  all_.push_back(std::make_unique<Registration>(std::move(made)));
  return all_.back().get();
}

bool CommMemory::has(const Registration* registration) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const auto& own) { return own.get() == registration; });
}

// Each user waits for its own queue pairs, and only the last one for TCP: until then the region
// stays. Of TCP only sends from this region count: the release resets no other stream.
bool CommMemory::is_read(const Registration& registration) const {
  const Memory* memory = registration.memory;
  if (memory == nullptr || memory->is_exposed) return false;
  if (ground_.queue_pairs->reads(memory)) return true;
  if (memory->users > 1) return false;
  return is_blocked_in(memory->region) || lyre_region_is_in_use(memory->region) != 0;
}

bool CommMemory::is_blocked_in(const lyre_region* region) const {
  const auto& streams = *ground_.streams;
  return std::any_of(streams.begin(), streams.end(), [&](const auto& lane) {
    return lane->is_up() && lane->transport->is_blocked_in(region) &&
           lane->transport->flush() == Io::kAgain;
  });
}

void CommMemory::release(const Registration* registration) {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const auto& own) { return own.get() == registration; });
  const std::unique_ptr<Registration> own = std::move(*found);
  all_.erase(found);
  let_go(*own);
}

void CommMemory::release_all() {
  for (const auto& registration : all_) let_go(*registration);
  all_.clear();
}

// The release of unacknowledged memory ends the stream. Each user drops its streams that have yet
// to send from there, and its queue pairs that read it: the last one may be another comm, which
// knows neither of them.
void CommMemory::let_go(const Registration& registration) {
  Memory* memory = registration.memory;
  if (memory == nullptr) return;
  // Nobody is to write there any more: each receive there is done, or the queue pairs are gone.
  if (memory->is_exposed) return ground_.environment->verbs()->forget(memory);
  for (const auto& lane : *ground_.streams) {
    if (lane->is_up() && lane->transport->is_blocked_in(memory->region)) ground_.drop(*lane);
  }
  ground_.queue_pairs->give_up_readers(memory);
  ground_.environment->give_back_memory(memory);
}

}  // namespace lyre::nccl_adapter
