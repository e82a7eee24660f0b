#include "nccl_adapter/daemon_link/connecting.h"

#include "nccl_adapter/comm/send_comm.h"
#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

uint64_t Connecting::add(SendComm* comm, int64_t now_ns) {
  if (++last_note_ == 0) ++last_note_;
  entries_.emplace(last_note_, Entry{comm, now_ns});
  return last_note_;
}

void Connecting::note_asked(uint64_t note, int64_t now_ns) {
  const auto found = entries_.find(note);
  if (found != entries_.end()) found->second.asked_ns = now_ns;
}

void Connecting::note_all_asked(int64_t now_ns) {
  for (auto& [note, entry] : entries_) entry.asked_ns = now_ns;
}

SendComm* Connecting::find(uint64_t note) const {
  const auto found = entries_.find(note);
  return found != entries_.end() ? found->second.comm : nullptr;
}

std::vector<SendComm*> Connecting::take_abandoned(int64_t now_ns) {
  std::vector<SendComm*> abandoned;
  std::erase_if(entries_, [&](const auto& named) {
    const Entry& entry = named.second;
    if (now_ns - entry.asked_ns < kConnectAbandonedNs) return false;
    abandoned.push_back(entry.comm);
    return true;
  });
  return abandoned;
}

void Connecting::forget(const Comm* comm) {
  std::erase_if(entries_, [&](const auto& named) { return named.second.comm == comm; });
}

}  // namespace lyre::nccl_adapter
