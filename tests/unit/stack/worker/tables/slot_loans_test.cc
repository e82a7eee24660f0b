#include "stack/worker/tables/slot_loans.h"

#include <gtest/gtest.h>

namespace lyre::worker {
namespace {

constexpr SlotLoanLimits kLimits{.contexts_max = 4, .per_session_max = 2};

TEST(SlotLoans, TellsWhoHadASlotOnce) {
  SlotLoans loans(8, kLimits);
  const SlotLoan loan{.context = 1, .session = 7, .generation = 9};
  loans.lend(5, loan);
  EXPECT_EQ(loans.lent_to(1), 1u);
  EXPECT_EQ(loans.take_back(5, 1), loan);
  EXPECT_EQ(loans.take_back(5, 1), std::nullopt);
  EXPECT_EQ(loans.lent_to(1), 0u);
  loans.check_invariants();
}

TEST(SlotLoans, IsAskedByLiars) {
  SlotLoans loans(8, kLimits);
  loans.lend(5, {.context = 1, .session = 7, .generation = 9});
  EXPECT_EQ(loans.take_back(5, 2), std::nullopt) << "another client's";
  EXPECT_EQ(loans.take_back(4, 1), std::nullopt) << "not lent";
  EXPECT_EQ(loans.take_back(8, 1), std::nullopt) << "no slot";
  EXPECT_EQ(loans.take_back(UINT32_MAX, UINT32_MAX), std::nullopt);
  EXPECT_EQ(loans.lent_to(1), 1u);
}

TEST(SlotLoans, KeepsToTheLimitOfASession) {
  const SlotLoans loans(8, kLimits);
  EXPECT_TRUE(loans.may_lend(1));
  EXPECT_FALSE(loans.may_lend(2));
}

TEST(SlotLoansDeathTest, ASlotIsLentOnce) {
  SlotLoans loans(8, kLimits);
  loans.lend(5, {.context = 1});
  EXPECT_DEATH(loans.lend(5, {.context = 2}), "UINT32_MAX");
}

}  // namespace
}  // namespace lyre::worker
