#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <iterator>
#include <thread>

namespace lyre {

/// From now on the system call `number` fails with `error` in this thread, and in what it starts.
/// False: this system has no such filters.
inline bool let_call_fail(unsigned number, unsigned error) {
  sock_filter instructions[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{.len = std::size(instructions), .filter = instructions};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Calls `body` in a thread in which that call fails. False: it was not called.
template <typename Body>
bool with_failing_call(unsigned number, unsigned error, const Body& body) {
  bool is_called = false;
  std::thread([&] {
    is_called = let_call_fail(number, error);
    if (is_called) body();
  }).join();
  return is_called;
}

}  // namespace lyre
