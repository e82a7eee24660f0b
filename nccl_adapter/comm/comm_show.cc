#include <algorithm>
#include <map>

#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/protocol/bytes.h"

/// What `lyre comms` sees of a comm.
namespace lyre::nccl_adapter {
namespace {

// The first stream's path, and how many take another rail: "rail0 > 10.9.0.2:4711 (+2 over rail1)".
std::string path_text(const std::vector<std::unique_ptr<Lane>>& lanes) {
  const Lane* first = nullptr;
  std::map<std::string, int> others;
  for (const auto& lane : lanes) {
    if (!lane->is_up()) continue;
    if (first == nullptr) first = lane.get();
    if (lane->rail_text != first->rail_text) ++others[lane->rail_text];
  }
  std::string text = first != nullptr ? first->path_text : "";
  for (const auto& [rail, count] : others) text += " (+" + std::to_string(count) + " " + rail + ")";
  return text;
}

void show_operation(const Operation& operation, nccl_abi::CommView* out) {
  std::copy(operation.function.begin(), operation.function.end(), out->operation);
  out->operation_number = operation.number;
  out->rank = operation.rank;
  out->peer_rank = operation.peer_rank;
  out->channel = static_cast<int32_t>(operation.channel);
}

}  // namespace

void Comm::show() const {
  if (slot_ == nullptr) return;
  nccl_abi::CommView view{};
  std::copy(id_.begin(), id_.end(), view.id);
  view.communicator = environment_->communicator();
  view.has_failed = has_failed() ? 1 : 0;
  view.peer_pid = peer_.pid;
  copy_text(view.peer_host, peer_.host);
  copy_text(view.peer_address, peer_.address);
  view.streams = static_cast<uint32_t>(lanes_.size());
  for (const auto& lane : lanes_) {
    view.redials += lane->attached > 0 ? lane->attached - 1 : 0;
    if (!lane->is_up()) continue;
    ++view.streams_up;
    view.unacked_bytes += lane->stream.unacked_bytes();
  }
  copy_text(view.path, path_text(lanes_));
  view.requests = static_cast<uint32_t>(active());
  view.outstanding_bytes = outstanding_bytes();
  const Request* waiting = oldest();
  if (waiting != nullptr)
    view.oldest_since_ns = environment_->clock().to_monotonic_ns(waiting->posted_ns);
  show_operation(waiting != nullptr ? waiting->operation : last_operation_, &view);
  describe(&view);
  if (active() == 0) view.waits_for = nccl_abi::WaitsFor::kNothing;
  if (active() > 0 && view.streams_up == 0) {
    view.waits_for =
        environment_->is_attached() ? nccl_abi::WaitsFor::kStream : nccl_abi::WaitsFor::kDaemon;
  }
  nccl_abi::write_slot(slot_, view);
  slot_->is_used.store(1, std::memory_order_release);  // behind the view in write_slot()
}

}  // namespace lyre::nccl_adapter
