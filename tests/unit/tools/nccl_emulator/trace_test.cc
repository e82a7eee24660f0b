#include "tools/nccl_emulator/trace.h"

#include <gtest/gtest.h>

#include <set>

namespace lyre::nccl_emulator {
namespace {

// Keeps the events that are started and not stopped.
class OpenEvents final : public Profiler {
 public:
  void* start_collective(uint64_t, const char*, uint64_t) override { return start(); }
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

TEST(Trace, EveryEventIsStoppedAlsoWhereAChannelHasNoMessages) {
  OpenEvents profiler;
  OperationTrace trace(&profiler, 1, Operation{}, {});
  SideTrace busy = trace.send(0, 1);
  (void)trace.receive(0, 0);  // no message would stop its event
  busy.start_step(0);
  busy.start_step(0);  // the plugin did not take the message
  EXPECT_EQ(profiler.events.size(), 3u);
  busy.stop_step(0);
  busy.stop();
  trace.stop();
  EXPECT_TRUE(profiler.events.empty());
}

}  // namespace
}  // namespace lyre::nccl_emulator
