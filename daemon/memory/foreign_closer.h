#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/base/owned_fd.h"

namespace lyre {

/// Closes what clients may have made blocking: files of a user's file system, and sockets that
/// linger. Each user (DomainRules::user_of()) has one thread while descriptors of its clients wait,
/// and there are few threads: the tasks of the daemon have a limit. The user's next connection is
/// refused while too many wait. Thread: the control thread; a close that blocks ends with the
/// process.
class ForeignCloser {
 public:
  ForeignCloser();
  ~ForeignCloser();
  ForeignCloser(const ForeignCloser&) = delete;
  ForeignCloser& operator=(const ForeignCloser&) = delete;

  /// Closes a descriptor that a client passed, if it is open: here if only memory is behind it, and
  /// little of it, otherwise in a thread.
  void close(OwnedFd descriptor, uint64_t user);
  /// Closes the connection of a client, or a socket that listens for them. The other side sees its
  /// end now. What nothing has received from it may have descriptors, which end with the socket.
  void close_socket(OwnedFd socket, uint64_t user);
  /// False while more would wait than a user may have.
  bool has_room(uint64_t user) const { return waiting_count(user) < kWaitingPerUserMax; }
  /// Descriptors that are not closed yet.
  size_t waiting_count(uint64_t user) const;
  /// Threads that close some.
  size_t thread_count() const;

  static constexpr size_t kWaitingPerUserMax = 16;
  static constexpr size_t kThreadsMax = 32;  ///< of all users; more users wait for one

 private:
  struct Queues;  ///< shared with the threads, which may outlive this object
  void enqueue(OwnedFd descriptor, uint64_t user);

  std::shared_ptr<Queues> queues_;
};

}  // namespace lyre
