#include "nccl_adapter/core/status.h"

#include <unistd.h>

#include <chrono>

namespace lyre::nccl_adapter {

std::string to_string(const lyre_addr& address) {
  char text[64];
  return lyre_addr_format(&address, text, sizeof(text)) > 0 ? text : "?";
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace lyre::nccl_adapter
