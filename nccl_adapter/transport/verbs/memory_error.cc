#include "nccl_adapter/transport/verbs/memory_error.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace lyre::nccl_adapter {

std::string memory_error_text(int code) {
  const std::string text = std::strerror(code);
  rlimit limit{};
  if (code != ENOMEM || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return text;
  if (limit.rlim_cur == RLIM_INFINITY) return text;
  return text + " (RLIMIT_MEMLOCK allows " + std::to_string(limit.rlim_cur / 1024) +
         " KiB of locked memory: see ulimit -l)";
}

}  // namespace lyre::nccl_adapter
