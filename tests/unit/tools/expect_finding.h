#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/lyre/doctor/finding.h"

namespace lyre::tools {

/// Every finding that is not fine says why, and what mends it.
inline void expect(const Finding& finding, Verdict verdict, const std::string& saw) {
  EXPECT_EQ(finding.verdict, verdict) << finding.saw;
  EXPECT_THAT(finding.saw, ::testing::HasSubstr(saw));
  EXPECT_EQ(finding.why.empty(), verdict == Verdict::kFine);
  EXPECT_EQ(finding.mend.empty(), verdict == Verdict::kFine);
}

}  // namespace lyre::tools
