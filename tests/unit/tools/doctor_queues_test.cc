#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/doctor/daemon_checks.h"

namespace lyre::tools {
namespace {

// A port on AF_XDP heard nothing of some connections, and doctor found all well.
TEST(DoctorConfig, NotesQueuesOfAnInterfaceThatGoToTheKernel) {
  const auto findings = read_config_check(
      0,
      "f: right\nport a: what eth0 receives on queues 1-7 goes to the kernel, as the port has only "
      "queue 0: ethtool -L eth0 combined 1, or flow rules that steer the port's packets\n");
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[1], Verdict::kNote, "as the port has only queue 0");
  EXPECT_EQ(findings[1].saw,
            "port a: what eth0 receives on queues 1-7 goes to the kernel, as the port has only "
            "queue 0");
  EXPECT_EQ(findings[1].mend,
            "ethtool -L eth0 combined 1, or flow rules that steer the port's packets");
}

}  // namespace
}  // namespace lyre::tools
