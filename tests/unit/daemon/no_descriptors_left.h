#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/base/owned_fd.h"

namespace lyre {

/// While it exists, this process has no number left for another descriptor.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    constexpr rlim_t kMoreThanATestHas = 1024;
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = std::min(before_.rlim_cur, kMoreThanATestHas);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    OwnedFd next(::eventfd(0, EFD_CLOEXEC));
    while (next.is_open()) {
      taken_.push_back(std::move(next));
      next.reset(::eventfd(0, EFD_CLOEXEC));
    }
    EXPECT_EQ(errno, EMFILE);
  }
  ~NoDescriptorsLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
  NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;

 private:
  rlimit before_{};
  std::vector<OwnedFd> taken_;
};

}  // namespace lyre
