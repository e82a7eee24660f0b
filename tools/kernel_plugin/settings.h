#pragma once

#include <string>

#include "nccl_adapter/abi/common.h"

namespace lyre::kernel_plugin {

inline constexpr int kDataSocketsMax = 64;  // NCCL's own bound of threads x sockets
inline constexpr int kHelperThreadsMax = 16;

/// The settings in the environment.
/// LYRE_KERNEL_ADDR: address to listen on (default 127.0.0.1).
/// LYRE_KERNEL_SOCKS: sockets that carry the payload of one comm (default 1).
/// LYRE_KERNEL_THREADS: helper threads of one comm; 0 with one socket, else 2 unless given.
struct Settings {
  std::string address = "127.0.0.1";
  int socket_count = 1;
  int thread_count = 0;
};

/// Fails: returns false and logs one line when a variable is out of range.
bool read_settings(Settings* out);

void set_logger(nccl_abi::Logger logger);

/// One WARN line in the caller's log. Thread: any.
__attribute__((format(printf, 1, 2))) void warn(const char* format, ...);

}  // namespace lyre::kernel_plugin
