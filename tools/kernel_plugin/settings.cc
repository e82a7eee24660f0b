#include "tools/kernel_plugin/settings.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace lyre::kernel_plugin {
namespace {

std::atomic<nccl_abi::Logger> g_logger{nullptr};

bool read_int(const char* name, int lowest, int highest, int* out) {
  const char* text = std::getenv(name);
  if (text == nullptr) return true;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < lowest || value > highest) {
    warn("%s=%s: a number from %d to %d is wanted", name, text, lowest, highest);
    return false;
  }
  *out = static_cast<int>(value);
  return true;
}

}  // namespace

bool read_settings(Settings* out) {
  Settings settings;
  if (const char* address = std::getenv("LYRE_KERNEL_ADDR")) settings.address = address;
  if (!read_int("LYRE_KERNEL_SOCKS", 1, kDataSocketsMax, &settings.socket_count)) return false;
  const bool striped = settings.socket_count > 1;
  settings.thread_count = striped ? 2 : 0;
  const int fewest = striped ? 1 : 0;
  if (!read_int("LYRE_KERNEL_THREADS", fewest, kHelperThreadsMax, &settings.thread_count)) {
    return false;
  }
  *out = settings;
  return true;
}

void set_logger(nccl_abi::Logger logger) { g_logger.store(logger, std::memory_order_relaxed); }

void warn(const char* format, ...) {
  const nccl_abi::Logger logger = g_logger.load(std::memory_order_relaxed);
  if (logger == nullptr) return;
  char line[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  logger(nccl_abi::LogLevel::kWarn, nccl_abi::kLogNet, "kernel_plugin", 0, "NET/Kernel : %s", line);
}

}  // namespace lyre::kernel_plugin
