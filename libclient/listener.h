#pragma once

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

  lyre_context* context;
  uint64_t cookie = 0;
  int patience_ms = 0;  ///< the context's
  lyre_addr local{};
  std::vector<OnWorker> workers;
  lyre::client::Fifo<lyre_session*> backlog;
};
