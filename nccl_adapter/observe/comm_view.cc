#include "nccl_adapter/observe/comm_view.h"

#include <algorithm>
#include <map>
#include <string>

#include "nccl_adapter/protocol/bytes.h"

namespace lyre::nccl_adapter {
namespace {

// The first stream's path, and how many take another rail: "rail0 > 10.9.0.2:4711 (+2 over rail1)".
std::string path_text(const std::vector<StreamFacts>& streams) {
  const StreamFacts* first = nullptr;
  std::map<std::string_view, int> others;
  for (const StreamFacts& stream : streams) {
    if (!stream.is_up) continue;
    if (first == nullptr) first = &stream;
    if (stream.rail != first->rail) ++others[stream.rail];
  }
  std::string text(first != nullptr ? first->path : "");
  for (const auto& [rail, count] : others) {
    text += " (+" + std::to_string(count) + " " + std::string(rail) + ")";
  }
  return text;
}

void show_operation(const Operation& operation, nccl_abi::CommView* out) {
  std::copy(operation.function.begin(), operation.function.end(), out->operation);
  out->operation_number = operation.number;
  out->rank = operation.rank;
  out->peer_rank = operation.peer_rank;
  out->channel = static_cast<int32_t>(operation.channel);
}

// The comm knows what its queue waits for; that there is no stream to move it goes before.
nccl_abi::WaitsFor waits_for(const nccl_abi::CommView& view, bool is_attached) {
  using nccl_abi::WaitsFor;
  if (view.requests == 0) return WaitsFor::kNothing;
  if (view.streams_up == 0) return is_attached ? WaitsFor::kStream : WaitsFor::kDaemon;
  // Bytes that the peer has not acknowledged wait for the network.
  if (view.is_sender != 0 && view.unacked_bytes > 0) return WaitsFor::kNetwork;
  return view.waits_for;
}

}  // namespace

nccl_abi::CommView view_of(const CommFacts& facts) {
  nccl_abi::CommView view = facts.view;
  copy_text(view.peer_host, facts.peer_host);
  copy_text(view.peer_address, facts.peer_address);
  view.streams = static_cast<uint32_t>(facts.streams.size());
  for (const StreamFacts& stream : facts.streams) {
    if (!stream.is_up) continue;
    ++view.streams_up;
    view.unacked_bytes += stream.unacked_bytes;
  }
  copy_text(view.path, path_text(facts.streams));
  show_operation(facts.operation, &view);
  view.waits_for = waits_for(view, facts.is_attached);
  return view;
}

void show(const CommFacts& facts, nccl_abi::CommSlot* slot) {
  nccl_abi::write_slot(slot, view_of(facts));
  slot->is_used.store(1, std::memory_order_release);  // behind the view in write_slot()
}

}  // namespace lyre::nccl_adapter
