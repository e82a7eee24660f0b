#include "stack/worker/tables/inherited_loans.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

TEST(InheritedLoans, ComeBackOnceAndToTheirClientOnly) {
  InheritedLoans loans;
  EXPECT_TRUE(loans.add({.context = 1, .slot = 5, .session = 2, .charge_bytes = 2048}));
  EXPECT_TRUE(loans.add({.context = 2, .slot = 5, .session = 3, .charge_bytes = 4096}));
  EXPECT_FALSE(loans.add({.context = 1, .slot = 5, .session = 9}));
  EXPECT_FALSE(loans.take_back(1, 6));
  EXPECT_FALSE(loans.take_back(3, 5));
  const auto loan = loans.take_back(1, 5);
  ASSERT_TRUE(loan);
  EXPECT_EQ(loan->session, 2u);
  EXPECT_EQ(loan->charge_bytes, 2048u);
  EXPECT_FALSE(loans.take_back(1, 5));
  EXPECT_FALSE(loans.empty());
}

TEST(InheritedLoans, AreGoneWhenAllCameBack) {
  InheritedLoans loans;
  for (const uint32_t slot : {1u, 2u, 3u}) loans.add({.context = 1, .slot = slot});
  EXPECT_TRUE(loans.take_back(1, 2));
  std::vector<uint32_t> slots;
  loans.for_each_of(1, [&](const InheritedLoan& loan) { slots.push_back(loan.slot); });
  EXPECT_EQ(slots, (std::vector<uint32_t>{1, 3}));
  EXPECT_FALSE(loans.add({.context = 1, .slot = 2}));
  EXPECT_TRUE(loans.take_back(1, 1));
  EXPECT_FALSE(loans.empty());
  EXPECT_TRUE(loans.take_back(1, 3));
  EXPECT_TRUE(loans.empty());
}

TEST(InheritedLoans, OfAClientThatLeftAreForgotten) {
  InheritedLoans loans;
  for (const uint32_t slot : {7u, 3u, 5u}) loans.add({.context = 1, .slot = slot});
  loans.add({.context = 2, .slot = 3});
  std::vector<uint32_t> slots;
  loans.for_each_of(1, [&](const InheritedLoan& loan) { slots.push_back(loan.slot); });
  EXPECT_EQ(slots, (std::vector<uint32_t>{3, 5, 7}));
  loans.forget(1);
  EXPECT_FALSE(loans.take_back(1, 3));
  EXPECT_TRUE(loans.take_back(2, 3));
  EXPECT_TRUE(loans.empty());
}

}  // namespace
}  // namespace lyre::worker
