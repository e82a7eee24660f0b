#include "daemon/base/watch.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <boost/asio/io_context.hpp>

namespace lyre {
namespace {

// An error of epoll_ctl() was thrown, and ended the daemon.
TEST(Watch, WhatTheSystemDoesNotWatchStaysItsOwners) {
  boost::asio::io_context io;
  boost::asio::posix::stream_descriptor out(io);
  OwnedFd none(1 << 20);  // not open: above every limit of this process
  EXPECT_FALSE(watch(out, none));
  EXPECT_FALSE(out.is_open());
  EXPECT_TRUE(none.is_open());
  OwnedFd event(::eventfd(0, EFD_CLOEXEC));
  EXPECT_TRUE(watch(out, event));
  EXPECT_FALSE(event.is_open());
}

TEST(Watch, WhatIsBorrowedStaysOpen) {
  boost::asio::io_context io;
  boost::asio::posix::stream_descriptor out(io);
  EXPECT_FALSE(watch_borrowed(out, 1 << 20));
  const OwnedFd event(::eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(watch_borrowed(out, event.get()));
  EXPECT_EQ(out.release(), event.get());
  EXPECT_EQ(::eventfd_write(event.get(), 1), 0);
}

}  // namespace
}  // namespace lyre
