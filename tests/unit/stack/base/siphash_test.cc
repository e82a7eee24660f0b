#include "stack/base/siphash.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "stack/base/derived_key.h"

namespace lyre {
namespace {

// The key of the reference vectors is the bytes 00..0f.
constexpr SipKey kReferenceKey{0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

uint64_t hash_of_count(size_t count) {
  std::array<uint8_t, 64> bytes{};
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i);
  return SipHash(kReferenceKey)(std::span(bytes).first(count));
}

TEST(SipHash, VectorOfThePaper) { EXPECT_EQ(hash_of_count(15), 0xa129ca6149be45e5u); }

TEST(SipHash, VectorOfTheEmptyInput) { EXPECT_EQ(hash_of_count(0), 0x726fdb47dd0e0e31u); }

TEST(SipHash, VectorOfOneWholeWord) { EXPECT_EQ(hash_of_count(8), 0x93f5f5799a932462u); }

TEST(SipHash, TheKeyMatters) {
  const std::array<uint8_t, 4> bytes = {1, 2, 3, 4};
  EXPECT_NE(SipHash(SipKey{1, 2})(bytes), SipHash(SipKey{1, 3})(bytes));
}

TEST(DerivedKey, DependsOnTheSecretAndOnTheLabel) {
  const std::array<SipKey, 5> keys = {
      kReferenceKey, derive_key(kReferenceKey, "a"), derive_key(kReferenceKey, "b"),
      derive_key(kReferenceKey, "ab"), derive_key(SipKey{1, 2}, "a")};
  std::set<uint64_t> words;
  for (const SipKey& key : keys) words.insert({key.k0, key.k1});
  EXPECT_EQ(words.size(), 2 * keys.size());
}

TEST(DerivedKey, IsTheSameEachTime) {  // the workers of a daemon must agree
  const SipKey first = derive_key(kReferenceKey, "a");
  const SipKey second = derive_key(kReferenceKey, "a");
  EXPECT_EQ(first.k0, second.k0);
  EXPECT_EQ(first.k1, second.k1);
}

}  // namespace
}  // namespace lyre
