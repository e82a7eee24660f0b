#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libclient/clock.h"
#include "libclient/context.h"
#include "libclient/errors.h"
#include "stack/channel/control.h"

namespace {

/// A client that polls detects the end of the daemon within this time. After a pause see
/// RegularWork.
constexpr int64_t kControlIntervalNs = 1'000'000;
/// Longest sleep while a submission ring is full: no completion reports that it has room again.
constexpr int64_t kRoomIntervalNs = 200'000;
/// A daemon says why it disconnected a client a second later at the latest.
constexpr int kGoodbyeMs = 2000;
constexpr int64_t kNsPerMs = 1'000'000;

/// Whatever waits calls this first: workers may not know yet what it waits for. Receive slots that
/// wait for more of their session go back, too: the peer may not send until they are there.
void wake_workers(lyre_context& context) {
  for (uint32_t i = 0; i < context.worker_count(); ++i) {
    context.worker(i).flush_releases();
    context.worker(i).wake();
  }
}

}  // namespace

size_t lyre_context::work() {
  if (failure_ != 0) return 0;
  size_t taken = 0;
  for (uint32_t i = 0; i < worker_count(); ++i) {
    const size_t count = drain(i);
    if (count > 0) heard_ = i;
    taken += count;
    workers_[i].flush_releases();
    if (workers_[i].has_waiting()) workers_[i].flush_waiting();
    if (workers_[i].take_room_news()) {
      ready_.note_news();
      ready_.note_room();
    }
  }
  return taken;
}

bool lyre_context::has_completions() {
  for (lyre::client::WorkerLink& worker : workers_) {
    if (worker.completions().available() > 0 || worker.is_broken()) return true;
  }
  return false;
}

bool lyre_context::has_unsent() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker.has_waiting() || worker.is_short_of_room();
  });
}

void lyre_context::look_at_control(int64_t now) {
  if (!regular_work_.may_run(lyre::nanos(now))) return;
  if (now - control_seen_ns_ < kControlIntervalNs) return;
  control_seen_ns_ = now;
  waiter_.look(now);
  read_control();
}

void lyre_context::read_control() {
  lyre::channel::Goodbye goodbye{};
  const ssize_t count = ::recv(control_.fd.get(), &goodbye, sizeof goodbye, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool is_untold = std::exchange(goodbye_until_ns_, 0) != 0;
  if (count != sizeof goodbye || goodbye.header.magic != lyre::channel::kControlMagic ||
      goodbye.header.type != lyre::channel::Control::kGoodbye) {
    return lyre::client::fail_after_completions(*this, LYRE_E_DAEMON,
                                                "the daemon is gone: its control socket hung up");
  }
  goodbye.text[sizeof goodbye.text - 1] = '\0';
  if (is_untold) failure_text_ = goodbye.text;
  lyre::client::fail_after_completions(*this, LYRE_E_EXPELLED, goodbye.text);
}

void lyre::client::fail_untold(lyre_context& context, const char* text) {
  fail_after_completions(context, LYRE_E_EXPELLED, text);
  context.goodbye_until_ns_ = now_ns() + kGoodbyeMs * kNsPerMs;
}

void lyre::client::await_goodbye(lyre_context& context) {
  while (context.goodbye_until_ns_ != 0) {
    const int64_t left_ns = std::max(context.goodbye_until_ns_ - now_ns(), int64_t{0});
    pollfd entry{context.control_.fd.get(), POLLIN, 0};
    // Also when the time is over: it may have come while this process was stopped.
    if (::poll(&entry, 1, static_cast<int>((left_ns + kNsPerMs - 1) / kNsPerMs)) > 0) {
      context.read_control();
    } else if (left_ns == 0) {
      context.goodbye_until_ns_ = 0;
      fail_unanswered(kGoodbyeMs);
      context.failure_text_ = lyre_last_error();
    }
  }
}

void lyre_context::idle_once(int64_t now, int64_t idle_since, int64_t deadline) {
  wake_workers(*this);
  if (!waiter_.yield(now, now - idle_since)) sleep(deadline - now);
}

void lyre_context::sleep(int64_t wait_ns) {
  wake_workers(*this);
  if (has_unsent()) wait_ns = std::min(wait_ns, kRoomIntervalNs);
  if (waiter_.sleep(wait_ns, [this] { return has_completions(); })) read_control();
}

bool lyre_context::arm() {
  wake_workers(*this);
  if (failure_ != 0 || ready_.has_news()) return false;
  if (has_unsent() && !waiter_.set_timer(kRoomIntervalNs)) return false;
  return waiter_.arm([this] { return has_completions(); });
}

void lyre_context::disarm() {
  if (waiter_.disarm()) read_control();
}

bool lyre_context::must_rest(int64_t now) {
  const bool polls_in_vain = vain_rounds_.on_round(lyre::nanos(now));
  if (waiter_.must_rest(now)) return true;
  // Another worker may have another client's bulk: it says nothing of this one's messages.
  return polls_in_vain && workers_[heard_].is_crowded();
}

void lyre_context::rest(int64_t max_ns) {
  if (!must_rest(lyre::client::now_ns())) return;
  if (failure_ == 0 && !ready_.has_news()) sleep(max_ns);
}

int64_t lyre_context::arm_rest(int64_t max_ns) {
  waiter_.disarm();
  if (!must_rest(lyre::client::now_ns())) return 0;
  wake_workers(*this);
  if (failure_ != 0 || ready_.has_news()) return 0;
  if (!waiter_.arm([this] { return has_completions(); })) return 0;
  return has_unsent() ? std::min(max_ns, kRoomIntervalNs) : max_ns;
}

void lyre_rest(lyre_context* context, int max_us) {
  if (context != nullptr && max_us > 0) context->rest(int64_t{max_us} * 1000);
}

int lyre_arm_rest(lyre_context* context, int max_us) {
  if (context == nullptr || max_us <= 0) return 0;
  return static_cast<int>(context->arm_rest(int64_t{max_us} * 1000) / 1000);
}

void lyre_defer_wakeups(lyre_context* context) {
  if (context == nullptr) return;
  for (uint32_t i = 0; i < context->worker_count(); ++i) context->worker(i).defer_wakeups();
}

void lyre_wake_workers(lyre_context* context) {
  if (context != nullptr) wake_workers(*context);
}

int lyre_poll(lyre_context* context, int timeout_ms) {
  if (context == nullptr) return lyre::client::fail_static(LYRE_E_INVALID, "no context");
  context->disarm();
  if (timeout_ms != 0) lyre::client::shorten_time_slices();
  const int happened =
      context->work_until(timeout_ms, [&] { return context->ready().take_news(); });
  // Events that the daemon queued before it left come before the failure.
  return happened < 0 && context->ready().take_kept_news() ? 1 : happened;
}

int lyre_eventfd(lyre_context* context) {
  if (context == nullptr) return lyre::client::fail_static(LYRE_E_INVALID, "no context");
  return context->waiter().poll_fd();
}

int lyre_arm(lyre_context* context) {
  if (context == nullptr) return lyre::client::fail_static(LYRE_E_INVALID, "no context");
  return context->arm() ? 0 : 1;
}

int lyre_drain(lyre_context* context, int timeout_ms) {
  if (context == nullptr) return lyre::client::fail_static(LYRE_E_INVALID, "no context");
  const int done = context->work_until(timeout_ms, [&] {
    if (context->send_totals().under_way > 0) return false;
    for (uint32_t i = 0; i < context->worker_count(); ++i) {
      if (context->worker(i).has_waiting()) return false;
    }
    return true;
  });
  if (done < 0) return done;
  if (done == 0) {
    return lyre::client::fail_static(LYRE_E_AGAIN, "bytes are still not acknowledged");
  }
  const int loss = std::exchange(context->send_totals().loss, 0);
  if (loss == 0) return 0;
  return lyre::client::fail(loss, "bytes sent on a closed session were lost: %s",
                            lyre_strerror(loss));
}
