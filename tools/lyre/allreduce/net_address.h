#pragma once

#include <chrono>
#include <string>

namespace lyre::allreduce {

/// Owns one descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int release();
  int fd_ = -1;
};

/// Kernel TCP for the out-of-band channel. `address` is ADDR:PORT, an IPv6 address in brackets.
/// Fails: throws Failure.
UniqueFd listen_tcp(const std::string& address);
/// Repeats until the other machine listens. Fails: throws Failure, after `timeout` or when
/// `is_interrupted` says so.
UniqueFd connect_tcp(const std::string& address, std::chrono::seconds timeout,
                     bool (*is_interrupted)());
/// Returns a closed descriptor when no connection waits.
UniqueFd accept_tcp(int listener);

}  // namespace lyre::allreduce
