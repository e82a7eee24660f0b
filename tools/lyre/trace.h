#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre trace`: the events of the sessions that `session` names, or, where it is empty, the
/// sessions that ended badly. Fails: throws Failure, also when no session has that name.
void run_trace(const GlobalOptions& globals, const std::string& session);

/// Selects those that `session` names: by peer, by peer and port, or by ":" and the own port. An
/// empty name is that of all that ended badly.
IsTraceWanted traces_of(std::string session);

/// By the time of their end, those that are open last.
void sort_by_end(std::vector<SessionTrace>& traces);

/// Every event in a line. Times are by the wall clock, which is ahead of the daemon's by
/// `clock_step_ns`.
std::string trace_text(const std::vector<SessionTrace>& traces, int64_t clock_step_ns);
/// Every session in a line, with the same times.
std::string ended_text(const std::vector<SessionTrace>& traces, int64_t clock_step_ns);
/// Times are by the daemon's clock.
nlohmann::ordered_json trace_json(const std::vector<SessionTrace>& traces);

}  // namespace lyre::tools
