#include "nccl_adapter/transport/verbs/memory_error.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace lyre::nccl_adapter {
namespace {

/// May set the limit on locked memory for its time.
class MemoryErrors : public ::testing::Test {
 protected:
  MemoryErrors() { EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0); }
  ~MemoryErrors() override { ::setrlimit(RLIMIT_MEMLOCK, &before_); }
  bool limit_to(rlim_t bytes) const {
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    return ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  }

 private:
  rlimit before_{};
};

TEST_F(MemoryErrors, NameTheLimitOnLockedMemory) {
  ASSERT_TRUE(limit_to(0));
  EXPECT_EQ(memory_error_text(ENOMEM),
            std::string(std::strerror(ENOMEM)) +
                " (RLIMIT_MEMLOCK allows 0 KiB of locked memory: see ulimit -l)");
}

TEST_F(MemoryErrors, NameNoLimitForWhatIsNoLackOfMemory) {
  ASSERT_TRUE(limit_to(0));
  EXPECT_EQ(memory_error_text(EINVAL), std::strerror(EINVAL));
}

TEST_F(MemoryErrors, NameNoLimitWhereThereIsNone) {
  if (!limit_to(RLIM_INFINITY)) GTEST_SKIP() << "may not lift the limit";
  EXPECT_EQ(memory_error_text(ENOMEM), std::strerror(ENOMEM));
}

}  // namespace
}  // namespace lyre::nccl_adapter
