#include "nccl_adapter/transport/verbs/library.h"

#include <gtest/gtest.h>

#include <string>

#include "nccl_adapter/transport/verbs/ports.h"

namespace lyre::nccl_adapter {
namespace {

// The build needs libibverbs-dev, which brings the library.
TEST(VerbsLibrary, HasEveryFunctionOfTheTable) {
  std::string why;
  const VerbsApi* api = load_verbs(&why);
  ASSERT_NE(api, nullptr) << why;
  EXPECT_EQ(why, "");
  EXPECT_EQ(load_verbs(&why), api);
  for (const VerbsPort& port : find_verbs_ports(*api, {.takes_emulated_verbs = true}))
    EXPECT_NE(port.describe(), "");
}

}  // namespace
}  // namespace lyre::nccl_adapter
