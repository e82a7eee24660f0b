#include "stack/io/dpdk/log.h"

#include <rte_log.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace lyre::io::dpdk {
namespace {

constexpr size_t kLinesMax = 16;
constexpr size_t kLineBytesMax = 400;

LogSink& sink() {
  static LogSink made;
  return made;
}

thread_local LogQuote* quote = nullptr;
thread_local std::string unfinished;  ///< DPDK writes some lines in parts

LogPriority priority_of(int level) {
  if (level <= static_cast<int>(RTE_LOG_ERR)) return LogPriority::kError;
  if (level <= static_cast<int>(RTE_LOG_WARNING)) return LogPriority::kWarning;
  if (level <= static_cast<int>(RTE_LOG_INFO)) return LogPriority::kInfo;
  return LogPriority::kDebug;
}

void on_line(std::string_view line) {
  if (line.empty()) return;
  const LogPriority priority = priority_of(rte_log_cur_msg_loglevel());
  if (quote != nullptr) return quote->keep(priority, line);
  sink()(priority, line);
}

/// The C library holds the lock of the stream during the call.
ssize_t write_log(void*, const char* bytes, size_t count) {
  std::string_view rest(bytes, count);
  for (size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    unfinished += rest.substr(0, end);
    on_line(std::string_view(unfinished).substr(0, kLineBytesMax));
    unfinished.clear();
    rest.remove_prefix(end + 1);
  }
  unfinished += rest.substr(0, kLineBytesMax - std::min(kLineBytesMax, unfinished.size()));
  return static_cast<ssize_t>(count);
}

void write_to_stderr(LogPriority, std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

}  // namespace

bool redirect_log(LogSink to) {
  sink() = to ? std::move(to) : LogSink(write_to_stderr);
  static std::FILE* const stream = ::fopencookie(
      nullptr, "w", {.read = nullptr, .write = write_log, .seek = nullptr, .close = nullptr});
  return stream != nullptr && rte_openlog_stream(stream) == 0;
}

void log_line(LogPriority priority, std::string_view line) {
  if (sink()) sink()(priority, line);
}

LogQuote::LogQuote() { quote = this; }

LogQuote::~LogQuote() {
  quote = nullptr;
  if (!sink()) return;
  for (const auto& [priority, line] : lines_) {
    sink()(has_failed_ ? LogPriority::kDebug : priority, line);
  }
}

void LogQuote::keep(LogPriority priority, std::string_view line) {
  if (lines_.size() < kLinesMax) lines_.emplace_back(priority, line);
}

std::string LogQuote::cause(std::string fallback) {
  has_failed_ = true;
  std::string first = first_error();
  return first.empty() ? fallback : first;
}

std::string LogQuote::first_error() const {
  const auto first = std::find_if(lines_.begin(), lines_.end(), [](const auto& line) {
    return line.first == LogPriority::kError;
  });
  return first == lines_.end() ? "" : std::string(without_origin(first->second));
}

std::string_view without_origin(std::string_view line) {
  constexpr std::string_view kEal = "EAL: ";
  constexpr std::string_view kCall = "(): ";
  if (line.starts_with(kEal)) line.remove_prefix(kEal.size());
  const size_t call = line.find(kCall);
  const bool is_name = call != line.npos && line.find(' ') > call;
  if (is_name) line.remove_prefix(call + kCall.size());
  return line;
}

}  // namespace lyre::io::dpdk
