#pragma once

#include <sched.h>

#include <thread>

namespace lyre::io::dpdk {

/// Calls `body` in a thread with a network namespace of its own, whose "lo" is down. The namespace
/// ends with the thread and its sockets. False: this process may make none.
template <typename Body>
bool in_own_network(const Body& body) {
  bool is_made = false;
  std::thread([&] {
    is_made = ::unshare(CLONE_NEWNET) == 0;
    if (is_made) body();
  }).join();
  return is_made;
}

}  // namespace lyre::io::dpdk
