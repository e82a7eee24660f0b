#include "daemon/base/preferred_node.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace lyre {
namespace {

struct Policy {
  int mode = -1;
  unsigned long first_nodes = 0;
};

Policy current_policy() {
  Policy policy;
  std::array<unsigned long, 17> nodes = {};
  if (::syscall(SYS_get_mempolicy, &policy.mode, nodes.data(), 1024UL, nullptr, 0UL) != 0)
    return {};
  policy.first_nodes = nodes[0];
  return policy;
}

TEST(PreferredNode, LastsAsLongAsTheObject) {
  if (current_policy().mode < 0) GTEST_SKIP() << "this kernel has no memory policies";
  {
    const PreferredNode node(0);
    EXPECT_EQ(current_policy().mode, MPOL_PREFERRED);
    EXPECT_EQ(current_policy().first_nodes, 1u);
  }
  EXPECT_EQ(current_policy().mode, MPOL_DEFAULT);
}

TEST(PreferredNode, IsNoneWhereThereIsNoSuchNode) {
  const Policy before = current_policy();
  for (const int absent : {-1, 1000, 1 << 20}) {
    const PreferredNode node(absent);
    EXPECT_EQ(current_policy().mode, before.mode) << absent;
  }
}

}  // namespace
}  // namespace lyre
