#include "libclient/stats_segment.h"

#include <utility>

#include "libclient/attach.h"
#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"
#include "stack/channel/stats.h"

namespace lyre::client {

int map_stats_segment(const char* socket_path, Mapping& out) {
  UniqueFd descriptor;
  uint64_t stats_bytes = 0;
  const char* path = socket_path_or_default(socket_path);
  if (const int code = ask_info(path, descriptor, stats_bytes); code != 0) return code;
  Mapping mapping;
  if (!mapping.map(descriptor.get(), stats_bytes, PROT_READ)) {
    return fail_errno(LYRE_E_NORESOURCES, "cannot map the stats segment");
  }
  const auto* header = reinterpret_cast<const channel::StatsHeader*>(mapping.data());
  if (!mapping.holds(0, sizeof *header) || header->magic != channel::kStatsMagic) {
    return fail(LYRE_E_VERSION, "the daemon's stats segment is not valid");
  }
  if (header->version != channel::kStatsVersion) {
    return fail(LYRE_E_VERSION,
                "the daemon's stats segment has version %u, this program reads %u: use the `lyre` "
                "that was installed with the daemon",
                header->version, channel::kStatsVersion);
  }
  out = std::move(mapping);
  return 0;
}

}  // namespace lyre::client
