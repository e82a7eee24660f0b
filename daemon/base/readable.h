#pragma once

#include <poll.h>

namespace lyre {

/// Whether `descriptor` has something to read, or its end, now. Never blocks. For those who wait
/// with Boost.Asio: where a descriptor was closed with an event under way, the reactor may report
/// that event for the next descriptor that is opened.
inline bool is_readable(int descriptor) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) != 0;
}

}  // namespace lyre
