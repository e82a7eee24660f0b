#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "tests/sim/adapter/network.h"

/// What the handles of lyre/lyre.h are in the simulator. The functions of that header, over a
/// Network, keep to what it promises, down to where it says "may".
struct lyre_session {
  lyre_context* context = nullptr;
  lyre::adapter_sim::End* end = nullptr;
  void* user = nullptr;
  bool is_ready = false;
  bool is_unaccepted = false;
  uint32_t next_token = 1;
  std::map<uint32_t, std::vector<uint8_t>> held;  ///< lent to the client, by token
  mutable uint64_t told_unacked = 0;
  mutable int64_t told_ns = 0;
};

struct lyre_listener {
  lyre_context* context = nullptr;
  uint16_t port = 0;
  bool is_ready = false;
  std::deque<lyre_session*> backlog;
};

struct lyre_region {
  lyre_context* context = nullptr;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  bool is_direct = true;
  bool is_refused_for_now = false;
};

struct lyre_context {
  lyre::adapter_sim::Host* host = nullptr;
  int64_t patience_ns = 0;  ///< for a daemon that is there and does not answer
  uint32_t process = 0;     ///< that opened it
  int failure = 0;
  int failure_at_check = 0;  ///< of lyre_check_slices(): the context fails while a client reads
  bool has_news = false;
  bool defers_wakeups = false;
  std::vector<lyre::adapter_sim::End*> unseen;  ///< have sends that no worker was woken for
  uint64_t arena_used = 0;
  std::map<uint8_t*, size_t> blocks;
  std::vector<lyre_session*> sessions;  ///< in order of making
  std::vector<lyre_listener*> listeners;
  std::vector<lyre_region*> regions;
  std::deque<lyre_session*> ready_sessions;
  std::deque<lyre_listener*> ready_listeners;
};

namespace lyre::adapter_sim {

/// Every context that is open.
const std::set<lyre_context*>& contexts();
/// Payload that the adapter said it copied into sessions, and out of them.
uint64_t copied_tx_bytes();
uint64_t copied_rx_bytes();
void reset_copied();

}  // namespace lyre::adapter_sim
