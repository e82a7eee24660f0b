#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/owned_fd.h"

namespace lyre {

/// A socket whose close takes as long as the test wants: it lingers until its peer has read all.
class SlowFile {
 public:
  SlowFile() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), name, bytes), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), name, &bytes), 0);
    file_ = OwnedFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(file_.get(), name, bytes), 0);
    peer_ = OwnedFd(::accept(listener_.get(), nullptr, nullptr));
    const linger forlong{.l_onoff = 1, .l_linger = 60};
    EXPECT_EQ(::setsockopt(file_.get(), SOL_SOCKET, SO_LINGER, &forlong, sizeof forlong), 0);
    const std::vector<uint8_t> zeros(1 << 20);
    while (::send(file_.get(), zeros.data(), zeros.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
  }
  OwnedFd take() { return std::move(file_); }
  void let_close() { peer_ = {}; }

 private:
  OwnedFd listener_;
  OwnedFd peer_;
  OwnedFd file_;
};

}  // namespace lyre
