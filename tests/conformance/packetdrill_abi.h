#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

namespace lyre::conformance {

/// The table of calls through which packetdrill drives a stack in a shared object. packetdrill owns
/// the table, packetdrill_interface_init() fills it. The order and the types are packetdrill's
/// binary interface. Every call gets `context` first and otherwise has the meaning of its POSIX
/// namesake, including -1 and errno.
struct PacketdrillTable {
  void* context;
  void (*free)(void*);
  int (*socket)(void*, int, int, int);
  int (*bind)(void*, int, const sockaddr*, socklen_t);
  int (*listen)(void*, int, int);
  int (*accept)(void*, int, sockaddr*, socklen_t*);
  int (*connect)(void*, int, const sockaddr*, socklen_t);
  ssize_t (*read)(void*, int, void*, size_t);
  ssize_t (*readv)(void*, int, const iovec*, int);
  ssize_t (*recv)(void*, int, void*, size_t, int);
  ssize_t (*recvfrom)(void*, int, void*, size_t, int, sockaddr*, socklen_t*);
  ssize_t (*recvmsg)(void*, int, msghdr*, int);
  ssize_t (*write)(void*, int, const void*, size_t);
  ssize_t (*writev)(void*, int, const iovec*, int);
  ssize_t (*send)(void*, int, const void*, size_t, int);
  ssize_t (*sendto)(void*, int, const void*, size_t, int, const sockaddr*, socklen_t);
  ssize_t (*sendmsg)(void*, int, const msghdr*, int);
  int (*fcntl)(void*, int, int, ...);
  int (*ioctl)(void*, int, unsigned long, ...);
  int (*close)(void*, int);
  int (*shutdown)(void*, int, int);
  int (*getsockopt)(void*, int, int, int, void*, socklen_t*);
  int (*setsockopt)(void*, int, int, int, const void*, socklen_t);
  int (*poll)(void*, pollfd*, nfds_t, int);
  /// Passes one IP packet to the stack. Returns 0, or -1.
  int (*netdev_send)(void*, const void*, size_t);
  /// Returns the next IP packet that the stack sent: its bytes, their number, and the time of
  /// sending in microseconds. 0, or -1 (packetdrill then calls again at once).
  int (*netdev_receive)(void*, void*, size_t*, long long*);
  int (*usleep)(void*, useconds_t);
  int (*gettimeofday)(void*, timeval*, struct timezone*);
  int (*epoll_create)(void*, int);
  int (*epoll_ctl)(void*, int, int, int, epoll_event*);
  int (*epoll_wait)(void*, int, epoll_event*, int, int);
  int (*pipe)(void*, int[2]);
  ssize_t (*splice)(void*, int, loff_t*, int, loff_t*, size_t, unsigned);
};

}  // namespace lyre::conformance

extern "C" void packetdrill_interface_init(const char* flags,
                                           lyre::conformance::PacketdrillTable* table);
