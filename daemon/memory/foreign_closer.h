#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  /// Starts a thread that nobody joins. Throws std::system_error or std::bad_alloc: there is none.
  using StartThread = std::function<void(std::function<void()>)>;

  explicit ForeignCloser(StartThread start_thread = start_detached);
  ~ForeignCloser();
  ForeignCloser(const ForeignCloser&) = delete;
  ForeignCloser& operator=(const ForeignCloser&) = delete;

  /// Closes a descriptor that a client passed, if it is open: here if only memory is behind it, and
  /// little of it, otherwise in a thread.
  void close(OwnedFd descriptor, uint64_t user);
  /// Closes the connection of a client, or a socket that listens for them. The other side sees its
  /// end now. What nothing has received from it may have descriptors, which end with the socket.
  void close_socket(OwnedFd socket, uint64_t user);
  /// False while more would wait than a user may have. Then it also tries again to start threads
  /// that the system refused, so that a later call may be true.
  bool has_room(uint64_t user);
  /// Descriptors that are not closed yet.
  size_t waiting_count(uint64_t user) const;
  /// Threads that close some.
  size_t thread_count() const;

  static constexpr size_t kWaitingPerUserMax = 16;
  static constexpr size_t kThreadsMax = 32;  ///< of all users; more users wait for one

 private:
  struct Queues;  ///< shared with the threads, which may outlive this object
  static void start_detached(std::function<void()> run);
  void enqueue(OwnedFd descriptor, uint64_t user);
  void start_threads();
  bool start_thread_for(uint64_t user);

  const StartThread start_thread_;
  std::shared_ptr<Queues> queues_;
};

}  // namespace lyre
