#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// Each rank of a job is a process, as under NCCL. A plugin that was loaded stays loaded, so two
/// tests cannot share a process.
namespace lyre::test {

/// One rank's end of a message pipe to the other rank, beside the network under test.
class Rank {
 public:
  Rank(int index, int fd) : index_(index), fd_(fd) {}
  int index() const { return index_; }
  void send(const void* data, size_t bytes);
  /// Fails: returns false when the other rank has ended.
  bool receive(void* data, size_t bytes);
  /// Returns when both ranks have called it.
  void barrier();

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
/// `meanwhile` runs in this process while they run.
std::vector<RankEnd> run_ranks(const std::vector<RankBody>& bodies, int seconds = 60,
                               const std::function<void()>& meanwhile = {});

/// Runs the bodies, and expects that every rank has passed.
void expect_ranks(const std::vector<RankBody>& bodies, int seconds = 60);

}  // namespace lyre::test
