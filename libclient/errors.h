#pragma once

/// The thread-local text behind lyre_last_error().
namespace lyre::client {

/// Remembers a formatted line and returns `code`. Thread: any; the text is the calling thread's.
[[gnu::format(printf, 2, 3)]] int fail(int code, const char* format, ...);

/// As fail() with the text of errno, which it reads first.
int fail_errno(int code, const char* what);

/// After a call failed that makes a descriptor: LYRE_E_DESCRIPTORS at this process's limit, else
/// LYRE_E_NORESOURCES with the text of errno.
int fail_for_descriptor(const char* what);

/// LYRE_E_DAEMON: the daemon is there and said nothing for so long.
int fail_unanswered(int patience_ms);

/// As fail(), for answers that come often: keeps the pointer, copies nothing.
/// REQUIRES: `text` lives as long as the library.
int fail_static(int code, const char* text);

}  // namespace lyre::client
