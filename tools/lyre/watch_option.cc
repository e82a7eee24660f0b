#include "tools/lyre/watch_option.h"

#include "tools/lyre/value_checks.h"

namespace lyre::tools {
namespace {

constexpr double kWatchSecondsMin = 0.1;
constexpr double kWatchSecondsMax = 86400;

}  // namespace

WatchOption::WatchOption(CLI::App& command, const char* text)
    : option_(command.add_option("--watch", *interval_s_, text)) {
  option_->check(seconds_between(kWatchSecondsMin, kWatchSecondsMax))
      ->expected(0, 1)
      ->default_str("1")
      ->type_name("SECONDS");
}

}  // namespace lyre::tools
