#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lyre::io::dpdk {

enum class LogPriority : uint8_t { kError, kWarning, kInfo, kDebug };

/// Takes one line of DPDK's log, without its end. Thread: any.
using LogSink = std::function<void(LogPriority, std::string_view)>;

/// Sends DPDK's log to `sink` for the rest of the process. Empty: to standard error.
/// Fails: no memory; DPDK's log then stays where it was.
bool redirect_log(LogSink sink);

/// Gives the sink a line that is not DPDK's own. Thread: any.
void log_line(LogPriority priority, std::string_view line);

/// Keeps what DPDK logs on this thread during one operation. If it succeeds the lines go to the
/// sink as they came. If it fails the first of them is the cause, and the others follow at debug
/// level. Thread: the one that made it. One at a time.
class LogQuote {
 public:
  LogQuote();
  ~LogQuote();
  LogQuote(const LogQuote&) = delete;
  LogQuote& operator=(const LogQuote&) = delete;

  /// The operation failed. `fallback` is the cause where DPDK did not log one.
  std::string cause(std::string fallback);
  /// The first error so far, as cause() has it; empty: none.
  std::string first_error() const;
  void keep(LogPriority priority, std::string_view line);

 private:
  std::vector<std::pair<LogPriority, std::string>> lines_;
  bool has_failed_ = false;
};

/// `line` without the name of the function that wrote it, and without "EAL: ".
std::string_view without_origin(std::string_view line);

}  // namespace lyre::io::dpdk
