#include "tools/nccl_emulator/plugin_log.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <deque>
#include <mutex>

namespace lyre::nccl_emulator {
namespace {

struct Log {
  std::mutex mutex;
  std::deque<LogLine> lines;
  bool is_echoed = false;
};

// Never destroyed: threads of a plugin may log while the process exits.
Log& plugin_log() {
  static Log& log = *new Log;
  return log;
}

__attribute__((format(printf, 5, 6))) void log_line(nccl_abi::LogLevel level, unsigned long,
                                                    const char*, int, const char* format, ...) {
  char text[kLogLineBytesMax + 1];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  Log& log = plugin_log();
  const std::lock_guard lock(log.mutex);
  if (log.is_echoed) std::fprintf(stderr, "%s\n", text);
  if (log.lines.size() == kLogLinesMax) log.lines.pop_front();
  log.lines.push_back({level, text});
}

}  // namespace

nccl_abi::Logger plugin_logger() { return &log_line; }

std::vector<LogLine> logged_lines() {
  Log& log = plugin_log();
  const std::lock_guard lock(log.mutex);
  return {log.lines.begin(), log.lines.end()};
}

std::string last_warning() {
  Log& log = plugin_log();
  const std::lock_guard lock(log.mutex);
  const auto last = std::find_if(log.lines.rbegin(), log.lines.rend(), [](const LogLine& line) {
    return line.level == nccl_abi::LogLevel::kWarn;
  });
  return last != log.lines.rend() ? last->text : "";
}

void set_log_echo(bool is_enabled) {
  Log& log = plugin_log();
  const std::lock_guard lock(log.mutex);
  log.is_echoed = is_enabled;
}

}  // namespace lyre::nccl_emulator
