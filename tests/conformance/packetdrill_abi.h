#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

namespace lyre::conformance {

/// The table of calls through which packetdrill drives a stack that lives in a shared object.
/// packetdrill owns the table, packetdrill_interface_init() fills it. Order and types are
/// packetdrill's binary interface. Every call gets `context` first and otherwise means what its
/// POSIX namesake means, -1 and errno included.
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
  /// One IP packet into the stack. 0, or -1.
  int (*netdev_send)(void*, const void*, size_t);
  /// The next IP packet out of the stack: its bytes, their number, and the microsecond at which
  /// the stack gave it away. 0, or -1 (packetdrill then asks again at once).
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
