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
      return entry.second.left_out == 0 && now - entry.second.begin >= kMinute;
    });
    if (minutes_.size() >= kUidsMax) uid = kOtherUids;
  }
  return minutes_.try_emplace(uid, Minute{.begin = now}).first->second;
}

bool ClientLog::may_write(uint32_t uid, Nanos now) {
  Minute& minute = minute_of(uid, now);
  if (now - minute.begin >= kMinute) {
    if (minute.left_out > 0) {
      spdlog::warn("clients of uid {}: {} lines were left out", uid, minute.left_out);
    }
    minute = {.begin = now};
  }
  if (minute.lines < lines_max_) {
    ++minute.lines;
    return true;
  }
  if (minute.left_out++ == 0) {
    spdlog::warn(
        "clients of uid {}: {} lines within a minute, further ones are left out "
        "(clients.log_lines_per_minute_max)",
        uid, lines_max_);
  }
  return false;
}

}  // namespace lyre
