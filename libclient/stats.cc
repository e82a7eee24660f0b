#include "stack/channel/stats.h"

#include <sys/mman.h>

#include "libclient/attach.h"
#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"

int lyre_stats_open(const char* socket_path, const void** out, size_t* bytes) {
  using namespace lyre::client;
  if (out == nullptr || bytes == nullptr) {
    return fail(LYRE_E_INVALID, "no place for the stats segment");
  }
  UniqueFd descriptor;
  uint64_t stats_bytes = 0;
  const char* path = socket_path_or_default(socket_path);
  if (const int code = ask_info(path, descriptor, stats_bytes); code != 0) return code;
  Mapping mapping;
  if (!mapping.map(descriptor.get(), stats_bytes, PROT_READ)) {
    return fail_errno(LYRE_E_NORESOURCES, "cannot map the stats segment");
  }
  const auto* header = reinterpret_cast<const lyre::channel::StatsHeader*>(mapping.data());
  if (!mapping.holds(0, sizeof *header) || header->magic != lyre::channel::kStatsMagic ||
      header->version != lyre::channel::kStatsVersion) {
    return fail(LYRE_E_VERSION, "the daemon's stats segment has another version");
  }
  *bytes = mapping.bytes();
  *out = mapping.give_up();
  return 0;
}

void lyre_stats_close(const void* stats, size_t bytes) {
  if (stats != nullptr) ::munmap(const_cast<void*>(stats), bytes);
}
