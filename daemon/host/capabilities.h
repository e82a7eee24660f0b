#pragma once

#include <linux/capability.h>

#include <cstdint>
#include <string>

#include "stack/base/result.h"

namespace lyre {

/// Bit n is capability n of linux/capability.h.
using Capabilities = uint64_t;

constexpr Capabilities capability(unsigned number) { return Capabilities{1} << number; }

/// The calling thread's effective capabilities.
Capabilities effective_capabilities();

/// "CAP_NET_RAW CAP_NET_ADMIN"; numbers where there is no name.
std::string names_of(Capabilities capabilities);

/// Takes from every thread of this process what is not in `kept`, for ever: none gains
/// a capability by executing a program either. Capabilities belong to threads, and some may run
/// already: each is interrupted once, by SIGUSR2.
/// REQUIRES: no other thread starts a thread during the call.
/// Fails: the system refuses, or a thread blocks the signal.
Status drop_capabilities(Capabilities kept);

/// While it lives, a program that this thread executes starts with the thread's capabilities.
/// Thread: one.
class InheritedCapabilities {
 public:
  InheritedCapabilities();
  ~InheritedCapabilities();
  InheritedCapabilities(const InheritedCapabilities&) = delete;
  InheritedCapabilities& operator=(const InheritedCapabilities&) = delete;

  /// False: the system refuses to pass some of them on.
  bool are_all() const { return are_all_; }

 private:
  bool are_all_ = true;
};

}  // namespace lyre
