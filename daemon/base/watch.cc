#include "daemon/base/watch.h"

#include <boost/system/error_code.hpp>

namespace lyre {

bool watch(boost::asio::posix::stream_descriptor& out, OwnedFd& fd) {
  if (!watch_borrowed(out, fd.get())) return false;
  static_cast<void>(fd.release());
  return true;
}

/// Without `error`, assign() throws.
bool watch_borrowed(boost::asio::posix::stream_descriptor& out, int fd) {
  boost::system::error_code error;
  out.assign(fd, error);
  return !error;
}

}  // namespace lyre
