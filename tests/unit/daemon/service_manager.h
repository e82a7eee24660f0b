#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/base/owned_fd.h"

namespace lyre {

/// The service manager's end of NOTIFY_SOCKET. It reads at once: the socket holds few messages, and
/// who sends another waits.
class ServiceManager {
 public:
  explicit ServiceManager(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "300000", 1);
    reader_ = std::thread([this] { read(); });
  }
  ~ServiceManager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::unsetenv("WATCHDOG_USEC");
    ::shutdown(socket_.get(), SHUT_RDWR);
    reader_.join();
  }
  /// How often it has been told that the daemon is well.
  int signs_of_life() const { return signs_; }

 private:
  void read() {
    char text[256];
    for (ssize_t bytes; (bytes = ::recv(socket_.get(), text, sizeof text, 0)) > 0;) {
      signs_ += std::string_view(text, static_cast<size_t>(bytes)) == "WATCHDOG=1";
    }
  }

  OwnedFd socket_;
  std::atomic<int> signs_{0};
  std::thread reader_;
};

}  // namespace lyre
