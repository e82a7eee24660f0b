#pragma once

#include <cstdlib>

namespace lyre {

/// What sd-daemon(3) reads as the priority of an error at the start of a line; "" where standard
/// error is not the journal. For lines that are not the log's: before it starts, and of processes
/// that have none.
inline const char* error_priority() {
  return std::getenv("JOURNAL_STREAM") != nullptr ? "<3>" : "";
}

}  // namespace lyre
