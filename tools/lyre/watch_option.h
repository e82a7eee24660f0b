#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

namespace lyre::tools {

/// `--watch [SECONDS]`, for commands that print again and again.
class WatchOption {
 public:
  WatchOption(CLI::App& command, const char* text);
  /// Refuses it beside the other.
  void exclude(CLI::Option& other) const { option_->excludes(&other); }
  std::optional<double> interval_s() const {
    return option_->count() > 0 ? std::optional(*interval_s_) : std::nullopt;
  }

 private:
  std::shared_ptr<double> interval_s_ = std::make_shared<double>(1);
  CLI::Option* option_;
};

}  // namespace lyre::tools
