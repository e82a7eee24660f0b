#include "nccl_adapter/transport/verbs/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/nccl_adapter/support/verbs_devices.h"

namespace lyre::nccl_adapter {
namespace {

using ::testing::ElementsAre;

class VerbsReports : public DescribedDevices {};

TEST_F(VerbsReports, SayWhyNothingIsLookedFor) {
  const VerbsReport report = report_verbs(nullptr, "libibverbs.so.1: no such file", {});
  EXPECT_THAT(report.lines,
              ElementsAre("RDMA devices are not looked for: libibverbs.so.1: no such file"));
  EXPECT_EQ(report.summary, "");
  EXPECT_EQ(report.why_none, report.lines[0]);
}

TEST_F(VerbsReports, OfAHostWithoutDevicesAreOneLine) {
  const VerbsReport report = report_verbs(&kFakeApi, "", {});
  EXPECT_THAT(report.lines, ElementsAre("this host has no RDMA device"));
  EXPECT_EQ(report.summary, "");
  EXPECT_EQ(report.why_none, "this host has no RDMA device");
}

TEST_F(VerbsReports, NameEachPortAndWhyItIsNotUsed) {
  add("mlx5_0", {FakeGid{v4(10, 9, 0, 1)}}).port.state = IBV_PORT_DOWN;
  add("mlx5_1", {FakeGid{v4(10, 9, 0, 1)}}).port.state = IBV_PORT_DOWN;
  add("rxe0", {FakeGid{v4(10, 9, 1, 1)}});
  const VerbsReport report = report_verbs(&kFakeApi, "", {});
  EXPECT_THAT(report.lines,
              ElementsAre("RDMA device rxe0, 100000 Mb/s, MTU 1024, GID 0 10.9.1.1",
                          "RDMA device mlx5_0, cannot be used: the port is not active",
                          "RDMA device mlx5_1, cannot be used: the port is not active"));
  EXPECT_EQ(report.summary, "mlx5_0, mlx5_1: the port is not active");
  EXPECT_EQ(report.why_none, "");
  ASSERT_EQ(report.usable.size(), 1u);
  EXPECT_EQ(report.usable[0].device, "rxe0");
}

TEST_F(VerbsReports, SayWhyNoneCanBeUsed) {
  add("mlx5_0", {FakeGid{v4(10, 9, 0, 1)}}).port.state = IBV_PORT_DOWN;
  const VerbsReport report = report_verbs(&kFakeApi, "", {});
  EXPECT_EQ(report.why_none, "mlx5_0: the port is not active");
}

}  // namespace
}  // namespace lyre::nccl_adapter
