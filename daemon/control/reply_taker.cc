#include "daemon/control/reply_taker.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/watch.h"

namespace lyre {

Status ReplyTaker::open() {
  OwnedFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.is_open()) return Error{errno, "no eventfd for the workers' answers"};
  if (!watch(bell_, bell)) return Error{ENOSPC, kNoMoreWatches};
  return Ok{};
}

void ReplyTaker::begin(ContextRegistry& registry, ControlServers& control,
                       std::function<bool()> on_look) {
  registry_ = &registry;
  control_ = &control;
  on_look_ = std::move(on_look);
  wait_for_bell();
  schedule(false);
}

/// Without the eventfd a client that registers memory would wait for the timer.
void ReplyTaker::wait_for_bell() {
  bell_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& error) {
                     if (error) return;
                     eventfd_t rings = 0;
                     ::eventfd_read(bell_fd(), &rings);
                     look();
                     wait_for_bell();
                   });
}

void ReplyTaker::schedule(bool is_due) {
  is_due =
      is_due || registry_->has_waiting() || registry_->held_count() > registry_->attached_count();
  const Nanos period = is_due ? kRepliesPeriod : kRepliesIdlePeriod;
  timer_.expires_after(std::chrono::nanoseconds(period.value));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look_by_timer();
  });
}

void ReplyTaker::look() {
  expulsions_.clear();
  registry_->poll(expulsions_);
  for (const Expulsion& expulsion : expulsions_) control_->expel(expulsion);
  for (const uint32_t context : registry_->take_detached()) control_->on_detached(context);
  for (const RegionAnswer& answer : registry_->regions().take_answers()) control_->answer(answer);
}

void ReplyTaker::look_by_timer() {
  look();
  schedule(on_look_());
}

}  // namespace lyre
