#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// Ranks of a job as processes of their own, which is what they are under NCCL: a plugin that was
/// loaded stays loaded, so no two tests may share a process.
namespace lyre::test {

/// What one rank sees of the other: a message pipe beside the network under test.
class Rank {
 public:
  Rank(int index, int fd) : index_(index), fd_(fd) {}
  int index() const { return index_; }
  void tell(const void* data, size_t bytes);
  /// Fails: false when the other rank is gone.
  bool hear(void* data, size_t bytes);
  /// Both ranks are here.
  void meet();

 private:
  int index_;
  int fd_;
};

using RankBody = std::function<void(Rank&)>;

struct RankEnd {
  int exit_status = -1;  ///< -1: ended by `signal`
  int signal = 0;
  std::string stderr_text;
};

/// Runs each body in a child process, at most `seconds` long. A body fails by gtest's EXPECT_ and
/// ASSERT_; its child then ends with status 1.
/// `at_end` runs in this process while they run.
std::vector<RankEnd> run_ranks(const std::vector<RankBody>& bodies, int seconds = 60,
                               const std::function<void()>& meanwhile = {});

/// The same, and every rank must have passed.
void expect_ranks(const std::vector<RankBody>& bodies, int seconds = 60);

}  // namespace lyre::test
