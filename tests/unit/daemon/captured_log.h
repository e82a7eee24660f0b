#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

namespace lyre {

/// What was logged while it existed. Thread: the one that logs.
class CapturedLog {
 public:
  CapturedLog() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_)); }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  bool has(const std::string& text) const { return out_.str().find(text) != std::string::npos; }
  size_t count(const std::string& text) const {
    size_t found = 0;
    const std::string all = out_.str();
    for (size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++found;
    return found;
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
  std::shared_ptr<spdlog::sinks::ostream_sink_mt> sink_ =
      std::make_shared<spdlog::sinks::ostream_sink_mt>(out_);
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace lyre
