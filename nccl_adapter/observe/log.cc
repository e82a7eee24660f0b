#include "nccl_adapter/observe/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace lyre::nccl_adapter {
namespace {

using nccl_abi::LogLevel;

constexpr size_t kLineBytes = 1024;

std::atomic<nccl_abi::Logger> g_logger{nullptr};

void write_line(LogLevel level, const char* format, va_list args) {
  char line[kLineBytes];
  std::vsnprintf(line, sizeof(line), format, args);
  const nccl_abi::Logger logger = g_logger.load(std::memory_order_relaxed);
  if (logger != nullptr) {
    logger(level, nccl_abi::kLogInit | nccl_abi::kLogNet, "net_lyre", 0, "NET/Lyre : %s", line);
  } else if (level == LogLevel::kWarn) {
    std::fprintf(stderr, "NET/Lyre : %s\n", line);
  }
}

}  // namespace

void set_logger(nccl_abi::Logger logger) { g_logger.store(logger, std::memory_order_relaxed); }

void log_warn(const char* format, ...) {
  va_list args;
  va_start(args, format);
  write_line(LogLevel::kWarn, format, args);
  va_end(args);
}

void log_info(const char* format, ...) {
  va_list args;
  va_start(args, format);
  write_line(LogLevel::kInfo, format, args);
  va_end(args);
}

void die(const char* format, ...) {
  va_list args;
  va_start(args, format);
  char line[kLineBytes];
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  // First, and without a lock or a buffer: NCCL_DEBUG may hide what its logger gets, and the logger
  // may print to a stream that another thread has locked.
  ::dprintf(STDERR_FILENO, "NET/Lyre : %s\n", line);
  if (::ftrylockfile(stdout) == 0) {
    if (g_logger.load(std::memory_order_relaxed) != nullptr) log_warn("%s", line);
    std::fflush(stdout);
    ::funlockfile(stdout);
  }
  // No exit handlers: they belong to threads of NCCL and CUDA that still run.
  std::_Exit(1);
}

}  // namespace lyre::nccl_adapter
