#pragma once

namespace lyre {

/// Prints the broken claim and aborts. A broken invariant ends the process before it corrupts data.
[[noreturn]] void check_failed(const char* claim, const char* file, int line);

}  // namespace lyre

/// An invariant that stays checked in production. Never for input: input is refused, not asserted.
#define LYRE_CHECK(claim) \
  (__builtin_expect(!!(claim), 1) ? void(0) : ::lyre::check_failed(#claim, __FILE__, __LINE__))
