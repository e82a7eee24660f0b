#include "nccl_adapter/daemon_link/rest.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "nccl_adapter/daemon_link/system.h"

namespace lyre::nccl_adapter {

Rest::Rest() : news_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Rest::~Rest() {
  if (news_fd_ >= 0) ::close(news_fd_);
}

bool Rest::begin(lyre_context* context) {
  if (is_under_way_ || news_fd_ < 0) return false;
  wait_ns_ = int64_t{lyre_arm_rest(context, longest_us_)} * 1000;
  if (wait_ns_ == 0) return false;
  longest_us_ = std::min(longest_us_ * 2, kRestUsMax);
  daemon_fd_ = lyre_eventfd(context);
  is_under_way_ = true;
  return true;
}

void Rest::wait() { wait_readable(daemon_fd_, news_fd_, wait_ns_); }

void Rest::end() {
  is_under_way_ = false;
  if (!has_ended_early_) return;
  has_ended_early_ = false;
  eventfd_t count = 0;
  ::eventfd_read(news_fd_, &count);
}

void Rest::after_poll(lyre_context* context, bool has_news) {
  if (has_ended_early_ || (!has_news && lyre_arm(context) == 0)) return;
  has_ended_early_ = true;
  ::eventfd_write(news_fd_, 1);
}

}  // namespace lyre::nccl_adapter
