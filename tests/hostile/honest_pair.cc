#include "tests/hostile/honest_pair.h"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/support/deadline.h"

namespace lyre::test {
namespace {

using namespace std::chrono_literals;

/// After so long something stands still that nothing should stop.
constexpr auto kHonestPatience = 20s;
constexpr auto kAttachPause = 1ms;
constexpr size_t kHonestArenaBytes = 16 * kMiB;
constexpr uint16_t kHonestPort = 5000;
constexpr int kHonestBacklog = 16;
constexpr size_t kWordBytes = 8;

/// The context of a client that has just ended may still have a place.
Context attach_patiently(const std::string& socket) {
  const Deadline deadline(kHonestPatience);
  Context context = attach(socket, "honest", kHonestArenaBytes);
  while (context == nullptr && !deadline.is_over()) {
    std::this_thread::sleep_for(kAttachPause);
    context = attach(socket, "honest", kHonestArenaBytes);
  }
  EXPECT_NE(context, nullptr) << lyre_last_error();
  return context;
}

}  // namespace

Context attach(const std::string& socket, const char* label, size_t arena_bytes) {
  const lyre_options options{.struct_bytes = sizeof options,
                             .socket_path = socket.c_str(),
                             .label = label,
                             .arena_bytes = arena_bytes,
                             .patience_ms = 60'000};
  lyre_context* context = nullptr;
  lyre_context_open(&options, &context);
  return Context(context);
}

size_t log_lines_with(const DaemonPair& daemons, int host, const std::string& part,
                      const std::string& rest) {
  std::istringstream log(daemons.log(host));
  size_t count = 0;
  for (std::string line; std::getline(log, line);) {
    // A search that begins at npos finds nothing.
    if (line.find(rest, line.find(part)) != std::string::npos) ++count;
  }
  return count;
}

HonestPair::HonestPair(DaemonPair& daemons)
    : daemons_(daemons),
      from_(attach_patiently(daemons.socket(0))),
      to_(attach_patiently(daemons.socket(1))) {
  lyre_addr address{};
  lyre_addr_parse((daemons.address(1) + ":" + std::to_string(kHonestPort)).c_str(), &address);
  EXPECT_EQ(lyre_listen(to_.get(), &address, kHonestBacklog, &listener_), 0) << lyre_last_error();
  EXPECT_EQ(lyre_connect(from_.get(), nullptr, &address, &sender_), 0) << lyre_last_error();
  EXPECT_TRUE(run_until([&] {
    if (receiver_ == nullptr) lyre_accept(listener_, &receiver_);
    return receiver_ != nullptr && lyre_state(sender_) == LYRE_OPEN;
  })) << daemons.log_tail(0);
}

template <typename IsDone>
bool HonestPair::run_until(IsDone is_done) {
  const Deadline deadline(kHonestPatience);
  while (!is_done()) {
    if (deadline.is_over()) return false;
    beside();
    lyre_poll(from_.get(), 0);
    lyre_poll(to_.get(), 0);
    std::this_thread::yield();
  }
  return true;
}

HonestPair::Way HonestPair::way(lyre_session* from, lyre_session* to, size_t bytes) {
  Way out{.from = from,
          .to = to,
          .sent = std::vector<uint8_t>(bytes),
          .got = std::vector<uint8_t>(bytes)};
  ++pattern_;
  for (size_t i = 0; i < bytes; ++i) {
    out.sent[i] = static_cast<uint8_t>((i * 2654435761u + pattern_ * 40503u) >> 24);
  }
  return out;
}

void HonestPair::expect_arrival(std::vector<Way> ways) {
  const bool is_complete = run_until([&] {
    size_t complete = 0;
    for (Way& way : ways) {
      const int64_t taken =
          lyre_send(way.from, way.sent.data() + way.out, way.sent.size() - way.out);
      if (taken > 0) way.out += static_cast<size_t>(taken);
      const int64_t came = lyre_recv(way.to, way.got.data() + way.in, way.got.size() - way.in);
      if (came > 0) way.in += static_cast<size_t>(came);
      if (way.in == way.sent.size()) ++complete;
    }
    return complete == ways.size();
  });
  for (const Way& way : ways) {
    EXPECT_TRUE(is_complete) << way.in << " of " << way.sent.size() << " bytes came\n"
                             << daemons_.log_tail(0) << daemons_.log_tail(1);
    EXPECT_EQ(way.sent == way.got, is_complete) << "other bytes came than were sent";
  }
}

void HonestPair::expect_transfer() {
  expect_arrival({way(sender_, receiver_, kMiB), way(receiver_, sender_, kMiB)});
}

void HonestPair::expect_ping_pong(int rounds) {
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    expect_arrival({way(sender_, receiver_, kWordBytes)});
    expect_arrival({way(receiver_, sender_, kWordBytes)});
  }
}

void HonestPair::expect_open() {
  lyre_addr address{};
  ASSERT_EQ(lyre_listener_addr(listener_, &address), 0);
  lyre_session* near = nullptr;
  lyre_session* far = nullptr;
  ASSERT_EQ(lyre_connect(from_.get(), nullptr, &address, &near), 0) << lyre_last_error();
  EXPECT_TRUE(run_until([&] {
    if (far == nullptr) lyre_accept(listener_, &far);
    return lyre_state(near) == LYRE_ENDED || (far != nullptr && lyre_state(near) == LYRE_OPEN);
  }));
  EXPECT_EQ(lyre_state(near), LYRE_OPEN) << lyre_session_error(near);
  lyre_abort(near);
  if (far != nullptr) lyre_abort(far);
}

}  // namespace lyre::test
