#pragma once

#if defined(__has_feature)
#define LYRE_HAS_FEATURE(x) __has_feature(x)
#else
#define LYRE_HAS_FEATURE(x) 0
#endif

namespace lyre::test {

/// Whether a sanitizer makes this program several times slower, and ends it where it asks for more
/// memory than there can be. clang 14 tells by a feature only, GCC by a macro only.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    LYRE_HAS_FEATURE(address_sanitizer) || LYRE_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace lyre::test
