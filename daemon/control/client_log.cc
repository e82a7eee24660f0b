#include "daemon/control/client_log.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace lyre {
namespace {

constexpr Nanos kMinute = seconds(60);
/// No process has it: setuid() refuses it.
constexpr uint32_t kOtherUids = UINT32_MAX;

}  // namespace

ClientLog::Minute& ClientLog::minute_of(uint32_t uid, Nanos now) {
  if (minutes_.size() >= kUidsMax && !minutes_.contains(uid)) {
    std::erase_if(minutes_, [now](const auto& entry) {
      return entry.second.left_out() == 0 && now - entry.second.begin >= kMinute;
    });
    if (minutes_.size() >= kUidsMax) uid = kOtherUids;
  }
  return minutes_.try_emplace(uid, Minute{.begin = now}).first->second;
}

void ClientLog::leave_out(Minute& minute, uint32_t uid, bool is_warning) {
  const bool is_told = minute.warnings_left_out > 0 || (!is_warning && minute.info_left_out > 0);
  ++(is_warning ? minute.warnings_left_out : minute.info_left_out);
  if (is_told) return;
  spdlog::warn(
      "clients of uid {}: {} lines within a minute, further {} are left out "
      "(clients.log_lines_per_minute_max)",
      uid, minute.lines, is_warning ? "ones" : "ones of level info");
}

bool ClientLog::may_write(spdlog::level::level_enum level, uint32_t uid, Nanos now) {
  if (!spdlog::should_log(level)) return false;
  Minute& minute = minute_of(uid, now);
  if (now - minute.begin >= kMinute) {
    if (minute.left_out() > 0) {
      spdlog::warn("clients of uid {}: {} lines were left out, {} of them warnings", uid,
                   minute.left_out(), minute.warnings_left_out);
    }
    minute = {.begin = now};
  }
  const bool is_warning = level >= spdlog::level::warn;
  // One line of two is kept as well; a single one is for any level.
  const uint32_t kept = lines_max_ > 1 ? (lines_max_ + 3) / 4 : 0;
  if (minute.lines < (is_warning ? lines_max_ : lines_max_ - kept)) {
    ++minute.lines;
    return true;
  }
  leave_out(minute, uid, is_warning);
  return false;
}

}  // namespace lyre
