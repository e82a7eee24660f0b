#pragma once

#include <deque>
#include <utility>

#include "daemon/base/owned_fd.h"

namespace lyre {

/// Descriptors that came along with records, in the order in which the records name them.
/// Thread: one.
class DescriptorQueue {
 public:
  void add(OwnedFd descriptor) { descriptors_.push_back(std::move(descriptor)); }
  /// The next one; none when all were taken.
  OwnedFd take() {
    if (descriptors_.empty()) return {};
    OwnedFd next = std::move(descriptors_.front());
    descriptors_.pop_front();
    return next;
  }
  bool empty() const { return descriptors_.empty(); }

 private:
  std::deque<OwnedFd> descriptors_;
};

}  // namespace lyre
