#include "nccl_adapter/observe/comm_view.h"

#include <gtest/gtest.h>

#include <memory>

namespace lyre::nccl_adapter {
namespace {

using nccl_abi::WaitsFor;

CommFacts facts_of(std::vector<StreamFacts> streams) {
  CommFacts facts;
  facts.view.requests = 1;
  facts.view.waits_for = WaitsFor::kPlacement;
  facts.streams = std::move(streams);
  return facts;
}

TEST(CommView, CountsItsStreams) {
  const auto view = view_of(facts_of({{.is_up = true, .unacked_bytes = 5},
                                      {.is_up = true, .unacked_bytes = 7},
                                      {.is_up = false},
                                      {}}));
  EXPECT_EQ(view.streams, 4u);
  EXPECT_EQ(view.streams_up, 2u);
  EXPECT_EQ(view.unacked_bytes, 12u);
}

TEST(CommView, NamesTheFirstPathAndHowManyTakeOthers) {
  const StreamFacts down{.path = "rail9 > 10.9.0.2:1", .rail = "over rail9"};
  const StreamFacts first{.is_up = true, .path = "rail0 > 10.9.0.2:1", .rail = "over rail0"};
  const StreamFacts other{.is_up = true, .path = "rail1 > 10.9.0.2:1", .rail = "over rail1"};
  EXPECT_STREQ(view_of(facts_of({down, first, first})).path, "rail0 > 10.9.0.2:1");
  EXPECT_STREQ(view_of(facts_of({down, first, other, other})).path,
               "rail0 > 10.9.0.2:1 (+2 over rail1)");
  EXPECT_STREQ(view_of(facts_of({down})).path, "");
}

TEST(CommView, WaitsForWhatIsMissingFirst) {
  const StreamFacts up{.is_up = true};
  EXPECT_EQ(view_of(facts_of({up})).waits_for, WaitsFor::kPlacement);
  CommFacts facts = facts_of({{}});
  EXPECT_EQ(view_of(facts).waits_for, WaitsFor::kStream);
  facts.is_attached = false;
  EXPECT_EQ(view_of(facts).waits_for, WaitsFor::kDaemon);
  facts.view.requests = 0;
  EXPECT_EQ(view_of(facts).waits_for, WaitsFor::kNothing);
}

TEST(CommView, ASenderWithBytesUnderWayWaitsForTheNetwork) {
  CommFacts facts = facts_of({{.is_up = true, .unacked_bytes = 1}});
  EXPECT_EQ(view_of(facts).waits_for, WaitsFor::kPlacement);
  facts.view.is_sender = 1;
  EXPECT_EQ(view_of(facts).waits_for, WaitsFor::kNetwork);
}

TEST(CommView, TextsAreCutToTheirFields) {
  CommFacts facts = facts_of({});
  const std::string host(100, 'x');
  facts.peer_host = host;
  facts.operation.function = {'A', 'l', 'l'};
  facts.operation.number = 7;
  const auto slot = std::make_unique<nccl_abi::CommSlot>();
  show(facts, slot.get());
  EXPECT_EQ(slot->is_used.load(), 1u);
  const auto view = view_of(facts);
  EXPECT_EQ(std::string(view.peer_host), std::string(63, 'x'));
  EXPECT_STREQ(view.operation, "All");
  EXPECT_EQ(view.operation_number, 7);
}

}  // namespace
}  // namespace lyre::nccl_adapter
