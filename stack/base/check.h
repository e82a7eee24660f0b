#pragma once

namespace lyre {

/// Prints the failed condition and aborts. A broken invariant ends the process before it corrupts
/// data.
[[noreturn]] void check_failed(const char* claim, const char* file, int line);

}  // namespace lyre

/// An invariant that stays checked in production. It is never used for input: invalid input is
/// refused, not asserted. No client and no peer can make a check fail. Where the surrounding lines
/// do not show why, a comment says so. A function with REQUIRES checks what its callers in this
/// tree guarantee.
#define LYRE_CHECK(claim) \
  (__builtin_expect(!!(claim), 1) ? void(0) : ::lyre::check_failed(#claim, __FILE__, __LINE__))
