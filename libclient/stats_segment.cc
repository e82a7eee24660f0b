#include "libclient/stats_segment.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "libclient/attach.h"
#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"
#include "stack/channel/stats.h"

namespace lyre::client {

namespace {

/// Of any version.
int map_segment(int descriptor, uint64_t stats_bytes, Mapping& out) {
  Mapping mapping;
  if (!mapping.map(descriptor, stats_bytes, PROT_READ)) {
    return fail_errno(LYRE_E_NORESOURCES, "cannot map the stats segment");
  }
  const auto* header = reinterpret_cast<const channel::StatsHeader*>(mapping.data());
  if (!mapping.holds(0, sizeof *header) || header->magic != channel::kStatsMagic) {
    return fail(LYRE_E_VERSION, "the daemon's stats segment is not valid");
  }
  out = std::move(mapping);
  return 0;
}

uint32_t version_of(const Mapping& segment) {
  return reinterpret_cast<const channel::StatsHeader*>(segment.data())->version;
}

/// The daemon seals its segment. A file of another process may shrink, which is SIGBUS for its
/// readers, or be one whose pages never come.
bool is_sealed(int descriptor) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace

int map_stats_segment(const char* socket_path, Mapping& out) {
  UniqueFd descriptor;
  uint64_t stats_bytes = 0;
  const char* path = socket_path_or_default(socket_path);
  if (const int code = ask_info(path, descriptor, stats_bytes); code != 0) return code;
  if (!is_sealed(descriptor.get())) {
    return fail(LYRE_E_VERSION, "the daemon's stats segment is not a sealed memfd");
  }
  if (const int code = map_segment(descriptor.get(), stats_bytes, out); code != 0) return code;
  if (const uint32_t version = version_of(out); version != channel::kStatsVersion) {
    return fail(LYRE_E_VERSION,
                "the daemon's stats segment has version %u, this program reads %u: use the `lyre` "
                "that was installed with the daemon",
                version, channel::kStatsVersion);
  }
  return 0;
}

int map_last_stats_segment(const char* socket_path, Mapping& out) {
  const std::string path =
      std::string(socket_path_or_default(socket_path)) + channel::kLastStatsSuffix;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!file.is_open() || ::fstat(file.get(), &found) != 0) {
    const int code = errno == EACCES ? LYRE_E_PERMISSION : LYRE_E_DAEMON;
    return fail(code, "%s: %s (what the last daemon left)", path.c_str(), std::strerror(errno));
  }
  const auto last_bytes = static_cast<uint64_t>(found.st_size);
  if (const int code = map_segment(file.get(), last_bytes, out); code != 0) return code;
  if (const uint32_t version = version_of(out); version != channel::kStatsVersion) {
    // The package has replaced the `lyre` that could read it.
    return fail(LYRE_E_VERSION,
                "%s: a daemon of another release left this (version %u, this program reads %u), so "
                "it cannot be shown: see that daemon's log in the journal",
                path.c_str(), version, channel::kStatsVersion);
  }
  return 0;
}

}  // namespace lyre::client
