#pragma once

#include <vector>

#include "tests/support/two_workers.h"

/// What workers answer to the control thread, for tests that play it.
namespace lyre::test {

inline std::vector<worker::Reply> take_replies(worker::Worker& worker) {
  std::vector<worker::Reply> replies;
  worker::Reply reply;
  while (worker.outbox().try_take(reply)) replies.push_back(reply);
  return replies;
}

inline bool has_reply(worker::Worker& worker, worker::Reply::Kind kind, uint32_t context) {
  bool is_there = false;
  for (const worker::Reply& reply : take_replies(worker)) {
    is_there |= reply.kind == kind && reply.context == context;
  }
  return is_there;
}

/// A client of `a` with so many sessions whose handshakes are not answered.
inline void open_many(TwoWorkers& hosts, uint32_t count) {
  while (hosts.a.worker().connection_count() < count) {
    if (hosts.client_a->submission_room() > 0) {
      hosts.client_a->connect({IpAddress::v4(0x0a090063), 5000}, 1);
    }
    hosts.turn();
  }
}

}  // namespace lyre::test
