#include "tools/lyre/metrics/comm_groups.h"

#include <algorithm>
#include <utility>

#include "tools/lyre/printable.h"

namespace lyre::tools {
namespace {

using nccl_abi::CommView;

void add_state(const CommsSnapshot& comms, const CommView& view, CommGroup& group) {
  ++group.comms;
  if (view.has_failed != 0) ++group.failed;
  group.streams_missing += view.streams > view.streams_up ? view.streams - view.streams_up : 0;
  group.queue_pairs_up += view.queue_pairs_up;
  group.outstanding_bytes += static_cast<double>(view.outstanding_bytes);
  group.oldest_request_ns = std::max(group.oldest_request_ns, oldest_age_ns(comms, view));
}

/// A user may write any values: one that falls adds nothing.
void add_growth(const CommCounts& before, const CommCounts& now, CommGroup& group) {
  for (size_t i = 0; i < kCommCounterCount; ++i) {
    if (now.values[i] <= before.values[i]) continue;
    group.counts[i] += static_cast<double>(now.values[i] - before.values[i]);
  }
}

}  // namespace

CommCounts counts_of(const CommView& view) {
  CommCounts out;
  out.values[kMovedBytes] = view.bytes;
  out.values[kMessages] = view.messages;
  out.values[kSentAgainBytes] = view.again_bytes;
  out.values[kStreamsRemade] = view.redials;
  out.values[kCopiedBytes] = view.copied_bytes;
  out.values[kQueuePairsLost] = view.queue_pairs_lost;
  return out;
}

void CommGroups::look(const CommsSnapshot& comms) {
  forget_old(comms.at_ns);
  for (auto& [key, group] : groups_) {
    CommGroup fresh;
    std::ranges::copy(group.counts, fresh.counts);
    group = fresh;
  }
  std::map<CommKey, CommCounts> now;
  for (const CommsOfProcess& process : comms.processes) {
    if (process.comms.empty()) continue;
    const MetricPlace place = places_.of(process.uid, printable(process.program), comms.at_ns);
    for (const CommView& view : process.comms) {
      const bool is_sender = view.is_sender != 0;
      CommGroup& group = groups_[{place.uid, place.name, is_sender}];
      add_state(comms, view, group);
      CommKey key{process.uid, process.pid, std::to_array(view.id), is_sender};
      const CommCounts counts = counts_of(view);
      const auto before = earlier_.find(key);
      if (before != earlier_.end()) add_growth(before->second, counts, group);
      now.insert_or_assign(std::move(key), counts);
    }
  }
  earlier_ = std::move(now);
}

void CommGroups::forget_old(int64_t now_ns) {
  places_.forget_old(now_ns);
  std::erase_if(groups_, [this](const auto& each) {
    return !places_.holds({each.first.uid, each.first.program});
  });
}

}  // namespace lyre::tools
