#pragma once

#include <cstdint>
#include <memory>

namespace lyre::io::dpdk {

/// How the driver of a receive queue tells that packets arrive.
/// Thread: the queue's worker, unless stated otherwise.
class RxWait {
 public:
  virtual ~RxWait() = default;
  /// See PacketIo::wait_fd().
  virtual int fd() const = 0;
  /// True: fd() is readable as long as packets wait, and needs no arming.
  virtual bool is_level() const { return false; }
  /// From now on a packet makes fd() readable, if the driver works correctly. False: it will not.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  /// Takes the event that fd() announces.
  virtual void clear() = 0;
  /// The port was stopped and started. Thread: the control thread, while the worker does not poll.
  virtual void on_restart() {}
};

/// A descriptor of the kernel that is readable as long as packets wait: the socket of
/// AF_XDP, or a TAP. Owner: the driver.
class SocketWait final : public RxWait {
 public:
  explicit SocketWait(int fd) : fd_(fd) {}
  int fd() const override { return fd_; }
  bool is_level() const override { return true; }
  bool arm() override { return true; }
  void disarm() override {}
  void clear() override {}

 private:
  int fd_;
};

/// An epoll instance that reports each write to the eventfds in it once. So the eventfds need not
/// be read: reading one that another process shares could block.
class EventEdges {
 public:
  EventEdges();
  ~EventEdges();
  EventEdges(const EventEdges&) = delete;
  EventEdges& operator=(const EventEdges&) = delete;

  /// -1: none could be made.
  int fd() const { return epoll_; }
  bool add(int eventfd);
  void remove(int eventfd);
  /// fd() is not readable until the next write.
  void clear();

 private:
  int epoll_;
};

/// The receive interrupt of a NIC's queue.
class InterruptWait final : public RxWait {
 public:
  /// nullptr: the driver has no receive interrupts.
  static std::unique_ptr<InterruptWait> make(uint16_t port_id, uint16_t queue_id);
  int fd() const override { return edges_.fd(); }
  bool arm() override;
  void disarm() override;
  void clear() override { edges_.clear(); }
  void on_restart() override;

 private:
  InterruptWait(uint16_t port_id, uint16_t queue_id) : port_id_(port_id), queue_id_(queue_id) {}

  uint16_t port_id_;
  uint16_t queue_id_;
  EventEdges edges_;
};

}  // namespace lyre::io::dpdk
