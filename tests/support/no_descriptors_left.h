#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace lyre::test {

/// While it exists, this process has no number left for another descriptor.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    constexpr rlim_t kMoreThanATestHas = 1024;
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = std::min(before_.rlim_cur, kMoreThanATestHas);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int next = ::eventfd(0, EFD_CLOEXEC); next >= 0; next = ::eventfd(0, EFD_CLOEXEC)) {
      taken_.push_back(next);
    }
    EXPECT_EQ(errno, EMFILE);
  }
  ~NoDescriptorsLeft() {
    for (const int fd : taken_) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
  NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace lyre::test
