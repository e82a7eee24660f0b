#include "nccl_adapter/core/status.h"

#include <unistd.h>

#include <chrono>

namespace lyre::nccl_adapter {

nccl_abi::Result to_result(int lyre_code) {
  using nccl_abi::Result;
  switch (lyre_code) {
    case 0:
    case LYRE_E_AGAIN:
      return Result::kSuccess;
    case LYRE_E_RESET:
    case LYRE_E_REFUSED:
    case LYRE_E_TIMEDOUT:
    case LYRE_E_UNREACHABLE:
    case LYRE_E_NOTCONNECTED:
      return Result::kRemoteError;
    case LYRE_E_INVALID:
    case LYRE_E_ABORTED:
    case LYRE_E_EXPELLED:
      return Result::kInternalError;
    default:
      return Result::kSystemError;
  }
}

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
