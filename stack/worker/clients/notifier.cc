#include "stack/worker/clients/notifier.h"

#include <sys/eventfd.h>

#include <atomic>

namespace lyre::worker {

void Notifier::announce_sends(Context& context, uint32_t conn, const tcp::SendSide& side,
                              Nanos now) {
  session::Session& told = tables_.sessions[conn];
  const auto status = told.has_dropped_sends ? told.end_status : channel::EndStatus::kOk;
  channel::Completion entry{.event = channel::Event::kSendDone,
                            .status = channel::general(status),
                            .exact = status,
                            .session = name_of(conn)};
  const int64_t rtt_min_us = (side.rtt_min.value + 999) / 1000;
  entry.body.send_done = {.descriptors = told.sends.finished_count,
                          .acked_bytes = told.sends.head_acked_bytes,
                          .rtt_min_us = static_cast<uint32_t>(rtt_min_us),
                          .rto_us = static_cast<uint32_t>(side.rto.value / 1000),
                          .is_window_closed = side.is_window_closed ? 1u : 0u};
  push(context, entry);
  told.announced_sends = static_cast<uint32_t>(told.sends.finished_count);
  told.sends_announced_at = now;
  told.must_announce_progress = false;
  told.is_told_closed = side.is_window_closed;
}

void Notifier::answer_open(Context& context, channel::Event event, channel::EndStatus status,
                           uint64_t cookie, channel::SessionName name, const FourTuple& tuple) {
  channel::Completion entry{
      .event = event, .status = channel::general(status), .exact = status, .session = name};
  auto& opened = entry.body.opened;
  opened.cookie = cookie;
  std::memcpy(opened.local_address, tuple.local.address.bytes.data(), 16);
  std::memcpy(opened.remote_address, tuple.remote.address.bytes.data(), 16);
  opened.local_port = tuple.local.port;
  opened.remote_port = tuple.remote.port;
  push(context, entry);
}

bool Notifier::try_fail_open(Context& context, const FailedOpen& failed) {
  const bool can_tell = context.failed_opens.empty() && context.completions.room() > 0;
  if (!can_tell) return try_keep_failed_open(context, failed);
  tell_failed_open(context, failed);
  return true;
}

bool Notifier::try_keep_failed_open(Context& context, const FailedOpen& failed) {
  if (context.failed_opens.size() == kFailedOpensPerContextMax) return false;
  const uint32_t index = failed_opens_.take();
  if (index == Slab<FailedOpen>::kNone) return false;
  failed_opens_[index] = failed;
  context.failed_opens.push_back(failed_opens_, index);
  return true;
}

/// In the order of the failures, `left` at most, which it counts down. Returns how many it told of.
size_t Notifier::announce_failed_opens(Context& context, uint32_t& left) {
  size_t told = 0;
  for (; !context.failed_opens.empty() && left > 0; --left, ++told) {
    if (context.completions.room() == 0) {
      tables_.stats.completion_ring_full.add(1);
      has_untold_ = true;
      break;
    }
    tell_failed_open(context, failed_opens_[context.failed_opens.front()]);
    drop_failed_open(context);
  }
  return told;
}

/// The first one. REQUIRES: there is one.
void Notifier::drop_failed_open(Context& context) {
  const uint32_t first = context.failed_opens.front();
  context.failed_opens.remove(failed_opens_, first);
  failed_opens_.give_back(first);
}

void Notifier::forget_failed_opens(Context& context) {
  while (!context.failed_opens.empty()) drop_failed_open(context);
}

/// Rare, and kept out of mark().
void Notifier::end_wait(uint32_t conn) { held_.remove(conn); }

void Notifier::ring_doorbells() {
  for (const uint32_t index : tables_.contexts.in_use()) {
    Context& context = tables_.contexts[index];
    if (!context.completions.has_unpublished()) continue;
    context.completions.publish();
    std::atomic<uint32_t>& sleeps = context.header().client_sleeps;
    if (!channel::must_ring(sleeps)) continue;
    sleeps.store(0, std::memory_order_relaxed);  // one ring a sleep is enough
    // The socket does not block. A full one wakes the client as well, and one that the client shut
    // down or closed wakes nobody.
    (void)!eventfd_write(context.attached.wake_fd, 1);
  }
}

}  // namespace lyre::worker
