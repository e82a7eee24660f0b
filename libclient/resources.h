#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace lyre::client {

/// Owner of a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Owner of a shared mapping. A child of fork() does not have it, and must not destroy its owner. A
/// core dump leaves it out.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  /// Fails: false, errno says why; EINVAL for a file shorter than `bytes`: an access to the
  /// missing part would be SIGBUS.
  bool map(int fd, uint64_t bytes, int protection);

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  uint64_t bytes() const { return bytes_; }
  /// True when [offset, offset + count) lies inside.
  bool holds(uint64_t offset, uint64_t count) const {
    return offset <= bytes_ && count <= bytes_ - offset;
  }
  /// Owner: the caller, who unmaps it.
  void* give_up() {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace lyre::client
