#pragma once

#include "libclient/resources.h"

/// For the tools of this repository: the segment's layout (stack/channel/stats.h) changes with
/// every version, so it is no part of lyre.h.
namespace lyre::client {

/// Maps the stats segment of the daemon behind `socket_path` read-only; NULL: as in
/// lyre_context_open(). Needs no context. Thread: any.
/// Fails: a LYRE_E code as lyre_context_open(), with lyre_last_error(). LYRE_E_VERSION with `out`
/// mapped: a segment of another release, of which only magic and version are known.
int map_stats_segment(const char* socket_path, Mapping& out);

/// Maps what the last daemon behind `socket_path` left when it ended.
/// Fails: LYRE_E_DAEMON when there is nothing; else as map_stats_segment().
int map_last_stats_segment(const char* socket_path, Mapping& out);

}  // namespace lyre::client
