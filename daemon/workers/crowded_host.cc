#include "daemon/workers/crowded_host.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "machine/scheduling.h"

namespace lyre {

CrowdedHost::CrowdedHost(const std::string& loadavg, uint32_t processors)
    : file_(::open(loadavg.c_str(), O_RDONLY | O_CLOEXEC)), processors_(processors) {}

bool CrowdedHost::look(Nanos now) {
  next_look_ = now + kLookEvery;
  if (!file_.is_open()) return false;
  std::array<char, 128> text;
  const ssize_t bytes = ::pread(file_.get(), text.data(), text.size(), 0);
  if (bytes <= 0) return false;
  const auto runnable =
      machine::runnable_threads(std::string_view(text.data(), static_cast<size_t>(bytes)));
  const bool is_more = runnable && *runnable > processors_;
  score_ = std::clamp(score_ + (is_more ? 1 : -1), 0, kScoreMax);
  return score_ >= kScoreMax / 2;
}

}  // namespace lyre
