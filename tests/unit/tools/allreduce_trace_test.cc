#include <gtest/gtest.h>

#include <set>

#include "tools/lyre/allreduce/trace.h"

namespace lyre::allreduce {
namespace {

// Keeps what has begun and not ended.
class Begun final : public Profiler {
 public:
  void* start_all_reduce(uint64_t, uint64_t) override { return start(); }
  void* start_proxy_op(void*, int, int, bool) override { return start(); }
  void* start_step(void*, uint64_t) override { return start(); }
  void stop(void* event) override {
    if (event == nullptr) return;
    EXPECT_EQ(events.erase(event), 1u);
  }

  std::set<void*> events;

 private:
  void* start() { return *events.insert(&handles_[next_++]).first; }

  char handles_[16] = {};
  size_t next_ = 0;
};

TEST(Trace, WhatBeginsEndsAlsoWhereAChannelHasNothingToDo) {
  Begun profiler;
  OperationTrace trace(&profiler, 1, Operation{}, {});
  SideTrace busy = trace.send(0, 1);
  (void)trace.receive(0, 0);  // nobody would stop what it began
  busy.start_step(0);
  busy.start_step(0);  // the plugin did not take the message
  EXPECT_EQ(profiler.events.size(), 3u);
  busy.stop_step(0);
  busy.stop();
  trace.stop();
  EXPECT_TRUE(profiler.events.empty());
}

}  // namespace
}  // namespace lyre::allreduce
