#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lyre::kernel_plugin {

/// An IPv4 or IPv6 endpoint small enough for NCCL's 128-byte handle.
struct Endpoint {
  uint8_t address[16];
  uint16_t family;
  uint16_t port;  // host order
};
static_assert(sizeof(Endpoint) == 20);

/// Owns one descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

std::string to_string(const Endpoint& endpoint);

/// Returns a non-blocking listener on `address` and a free port; both are written to `bound`.
/// Fails: an unusable address gives a closed Fd and errno.
Fd listen_on(const std::string& address, Endpoint* bound);

/// Starts a non-blocking connect. Fails: closed Fd and errno.
Fd start_connect(const Endpoint& peer);

/// Does not block. Returns a closed Fd with errno EAGAIN when no connection waits.
Fd accept_from(int listener, Endpoint* peer);

enum class ConnectProgress { kPending, kConnected, kFailed };

/// Never blocks. Fails: kFailed with errno set to the socket's error.
ConnectProgress check_connected(int fd);

}  // namespace lyre::kernel_plugin
