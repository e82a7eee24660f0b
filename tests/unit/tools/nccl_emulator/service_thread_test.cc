#include "tools/nccl_emulator/service_thread.h"

#include <gtest/gtest.h>

#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

TEST(ServiceThread, RunsAllTasksOnOneOtherThread) {
  ServiceThread service;
  std::thread::id first;
  std::thread::id second;
  service.run([&] { first = std::this_thread::get_id(); });
  service.run([&] { second = std::this_thread::get_id(); });
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(first, second);
}

TEST(ServiceThread, PassesExceptionsAndGoesOn) {
  ServiceThread service;
  EXPECT_THROW(service.run([] { throw Failure("no"); }), Failure);
  bool has_run = false;
  service.run([&] { has_run = true; });
  EXPECT_TRUE(has_run);
}

}  // namespace
}  // namespace lyre::nccl_emulator
