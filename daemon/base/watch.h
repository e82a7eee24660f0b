#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>

#include "daemon/base/owned_fd.h"

namespace lyre {

/// `out` watches `fd` and owns it. False: the system watches no more descriptors of this user
/// (fs.epoll.max_user_watches), or has no memory; `fd` stays the caller's.
bool watch(boost::asio::posix::stream_descriptor& out, OwnedFd& fd);
/// The same for a descriptor that stays the caller's: out.release() comes before its close.
bool watch_borrowed(boost::asio::posix::stream_descriptor& out, int fd);

inline constexpr const char* kNoMoreWatches =
    "the system watches no more descriptors for this daemon's user (fs.epoll.max_user_watches)";

}  // namespace lyre
