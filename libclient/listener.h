#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libclient/fifo.h"
#include "libclient/include/lyre/lyre.h"
#include "libclient/session.h"
#include "stack/channel/abi.h"

/// A listener. Every worker has a part of it: a connection belongs to the worker that received its
/// SYN.
/// Thread: the context's.
struct lyre_listener : lyre::client::Waitable {
  enum class Part : uint8_t { kIdle, kAsked, kListening, kFailed };
  struct OnWorker {
    Part part = Part::kIdle;
    int error = 0;
    bool is_forbidden = false;  ///< the kind of LYRE_E_UNREACHABLE that `error` is
    lyre::channel::SessionName name;
  };

  explicit lyre_listener(lyre_context* owner) : context(owner) { is_listener = true; }

  /// As many sessions wait as all workers together announce before their rings are read: each
  /// worker takes `backlog` + 1. So a client that accepts after each lyre_poll() loses none.
  bool is_full() const { return unaccepted.size() >= workers.size() * (size_t{backlog} + 1); }

  lyre_context* context;
  uint64_t cookie = 0;
  int patience_ms = 0;   ///< the context's
  int64_t began_ns = 0;  ///< the lyre_listen() that waits for the workers' answers
  lyre_addr local{};
  uint16_t backlog = 0;  ///< of lyre_listen(), in the range that workers take
  std::vector<OnWorker> workers;
  lyre::client::Fifo<lyre_session*> unaccepted;  ///< the oldest first
};
