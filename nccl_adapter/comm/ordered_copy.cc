#include "nccl_adapter/comm/ordered_copy.h"

#include <atomic>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace lyre::nccl_adapter {
namespace {

bool is_aligned(const uint8_t* data, size_t to) {
  return reinterpret_cast<uintptr_t>(data) % to == 0;
}

template <std::memory_order kOrder, typename Word>
void store_in(uint8_t* to, const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  std::atomic_ref(*reinterpret_cast<Word*>(to)).store(word, kOrder);
}

#if defined(__aarch64__)
constexpr size_t kVectorBytes = 128;
constexpr size_t kFlagAt = kVectorBytes - sizeof(uint64_t);

/// What was stored before is seen first, by devices, too: they are in the outer shareable domain.
/// Release stores instead of this cannot be merged, and need not reach that far. No test fails
/// without it: single steps and emulators keep the order of instructions.
void order_stores() { asm volatile("dmb oshst" ::: "memory"); }

template <typename Word>
void store(uint8_t* to, const uint8_t* from) {
  const auto at = reinterpret_cast<uintptr_t>(to);
  const bool is_part_of_word = sizeof(Word) < sizeof(uint64_t);
  const bool is_flag_of_word = is_part_of_word && at % sizeof(uint64_t) == sizeof(uint32_t);
  if (is_flag_of_word || at % kVectorBytes == kFlagAt) order_stores();
  store_in<std::memory_order_relaxed, Word>(to, from);
}

/// Whole lines to aligned memory. Returns how many bytes.
size_t copy_vectors(uint8_t* to, const uint8_t* from, size_t bytes) {
  size_t done = 0;
  for (; bytes - done >= kVectorBytes; done += kVectorBytes) {
#pragma GCC unroll 15
    for (size_t at = done; at < done + kFlagAt; at += sizeof(uint64_t)) {
      store_in<std::memory_order_relaxed, uint64_t>(to + at, from + at);
    }
    order_stores();
    store_in<std::memory_order_relaxed, uint64_t>(to + done + kFlagAt, from + done + kFlagAt);
  }
  return done;
}
#else
/// Release: what was stored before is seen by who sees this.
template <typename Word>
void store(uint8_t* to, const uint8_t* from) {
  store_in<std::memory_order_release, Word>(to, from);
}
#endif

#if defined(__x86_64__)
constexpr size_t kVectorBytes = 16;
constexpr size_t kRoundBytes = 4 * kVectorBytes;

/// The processor keeps the order of stores; the barrier makes the compiler keep it.
void store_vector(uint8_t* to, __m128i value) {
  _mm_store_si128(reinterpret_cast<__m128i*>(to), value);
  asm volatile("" ::: "memory");
}

__m128i load_vector(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// Whole vectors to aligned memory. Returns how many bytes.
size_t copy_vectors(uint8_t* to, const uint8_t* from, size_t bytes) {
  size_t done = 0;
  for (; bytes - done >= kRoundBytes; done += kRoundBytes) {
    const __m128i first = load_vector(from + done);
    const __m128i second = load_vector(from + done + kVectorBytes);
    const __m128i third = load_vector(from + done + 2 * kVectorBytes);
    const __m128i fourth = load_vector(from + done + 3 * kVectorBytes);
    store_vector(to + done, first);
    store_vector(to + done + kVectorBytes, second);
    store_vector(to + done + 2 * kVectorBytes, third);
    store_vector(to + done + 3 * kVectorBytes, fourth);
  }
  for (; bytes - done >= kVectorBytes; done += kVectorBytes) {
    store_vector(to + done, load_vector(from + done));
  }
  return done;
}
#elif !defined(__aarch64__)
constexpr size_t kVectorBytes = sizeof(uint64_t);

size_t copy_vectors(uint8_t*, const uint8_t*, size_t) { return 0; }
#endif

}  // namespace

void copy_in_order(uint8_t* to, const uint8_t* from, size_t bytes) {
  size_t done = 0;
  while (done < bytes && !is_aligned(to + done, sizeof(uint64_t))) {
    store<uint8_t>(to + done, from + done);
    ++done;
  }
  while (!is_aligned(to + done, kVectorBytes) && bytes - done >= sizeof(uint64_t)) {
    store<uint64_t>(to + done, from + done);
    done += sizeof(uint64_t);
  }
  if (is_aligned(to + done, kVectorBytes)) {
    done += copy_vectors(to + done, from + done, bytes - done);
  }
  for (; bytes - done >= sizeof(uint64_t); done += sizeof(uint64_t)) {
    store<uint64_t>(to + done, from + done);
  }
  for (; done < bytes; ++done) store<uint8_t>(to + done, from + done);
}

}  // namespace lyre::nccl_adapter
