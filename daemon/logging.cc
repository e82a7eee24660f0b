#include "daemon/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "daemon/base/journal.h"

namespace lyre {
namespace {

/// "<4>": the priority that sd-daemon(3) reads at the start of a line.
class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const char digit = digit_of(message.level);
    const char prefix[] = {'<', digit, '>'};
    out.append(prefix, prefix + sizeof prefix);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }

 private:
  static char digit_of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::critical:
        return '2';
      case spdlog::level::err:
        return '3';
      case spdlog::level::warn:
        return '4';
      case spdlog::level::info:
        return '6';
      default:
        return '7';
    }
  }
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::info;
}

}  // namespace

void start_logging(LogLevel level) {
  auto logger =
      std::make_shared<spdlog::logger>("lyred", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (is_stderr_journal()) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<PriorityFlag>('*').set_pattern("%*%v");
    logger->set_formatter(std::move(formatter));
  } else {
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
  }
  logger->set_level(spdlog_level(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level(LogLevel level) { spdlog::default_logger()->set_level(spdlog_level(level)); }

}  // namespace lyre
