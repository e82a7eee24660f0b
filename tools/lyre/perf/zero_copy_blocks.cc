#include "tools/lyre/perf/zero_copy_blocks.h"

#include <linux/errqueue.h>
#include <sys/socket.h>

#include <algorithm>

namespace lyre::perf {

bool ZeroCopyBlocks::turn_on(int fd) {
  const int on = 1;
  return ::setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
}

std::span<uint8_t> ZeroCopyBlocks::take(size_t bytes) {
  listen();
  const auto is_free = [](const auto& block) { return block->reads == 0; };
  auto found = std::find_if(blocks_.begin(), blocks_.end(), is_free);
  if (found == blocks_.end()) {
    if (blocks_.size() == kBlocksMax) return {};
    found = blocks_.insert(blocks_.end(), std::make_unique<Block>());
  }
  taken_ = found->get();
  if (taken_->bytes.size() < bytes) taken_->bytes.resize(bytes);
  return {taken_->bytes.data(), bytes};
}

void ZeroCopyBlocks::on_sent() {
  ++taken_->reads;
  sends_.push_back({taken_});
}

void ZeroCopyBlocks::listen() {
  while (!sends_.empty()) {
    alignas(cmsghdr) char control[128];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(fd_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
      const auto* error = reinterpret_cast<const sock_extended_err*>(CMSG_DATA(part));
      // The sends with numbers ee_info to ee_data are complete.
      if (error->ee_origin == SO_EE_ORIGIN_ZEROCOPY) on_over(error->ee_info, error->ee_data);
    }
  }
}

void ZeroCopyBlocks::on_over(uint32_t first, uint32_t last) {
  for (uint32_t place = first - first_send_; place <= last - first_send_; ++place) {
    if (place >= sends_.size() || sends_[place].is_over) continue;
    sends_[place].is_over = true;
    --sends_[place].block->reads;
  }
  const auto is_open = [](const Send& send) { return !send.is_over; };
  const auto open = std::find_if(sends_.begin(), sends_.end(), is_open);
  first_send_ += static_cast<uint32_t>(open - sends_.begin());
  sends_.erase(sends_.begin(), open);
}

}  // namespace lyre::perf
