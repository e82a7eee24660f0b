#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace lyre {

/// True where standard error is the journal (systemd.exec(5), JOURNAL_STREAM). A program that a
/// service starts inherits the variable also where somebody else reads what it says.
inline bool is_stderr_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat file {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &file) != 0) return false;
  return std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino) == stream;
}

/// What sd-daemon(3) reads as the priority of an error at the start of a line; "" where standard
/// error is not the journal. For lines that are not the log's: before it starts, and of processes
/// that have none.
inline const char* error_priority() { return is_stderr_journal() ? "<3>" : ""; }

}  // namespace lyre
