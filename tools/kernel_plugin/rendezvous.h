#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/kernel_plugin/comm.h"
#include "tools/kernel_plugin/settings.h"

namespace lyre::kernel_plugin {

struct ConnectState;

/// What travels in NCCL's handle. The listener decides how many sockets a comm has.
struct Handle {
  uint64_t magic;
  uint8_t nonce[16];
  Endpoint endpoint;
  uint16_t data_sockets;  // beside the control socket
  uint16_t threads;
  ConnectState* state;  // the connecting side's own, between two calls of connect
};
static_assert(sizeof(Handle) <= nccl_abi::kHandleBytesMax);

/// First bytes on every socket of a comm: which comm, which of its sockets.
struct Hello {
  uint64_t magic;
  uint8_t nonce[16];
  uint32_t index;  // 0: control, then the data sockets
  uint32_t reserved;
};
static_assert(sizeof(Hello) == 32);

/// Thread: one at a time.
class Listener {
 public:
  /// Fails: null, with a line in the log.
  static std::unique_ptr<Listener> make(const Settings& settings, Handle* handle);

  /// Null comm and kSuccess: call again.
  nccl_abi::Result accept(Comm** out);

 private:
  struct Visitor {
    Fd fd;
    Endpoint peer{};
    Hello hello{};
    size_t hello_bytes = 0;
  };
  enum class HelloProgress { kMore, kComplete, kRefused };

  void take_visitors();
  HelloProgress read_hello(Visitor* visitor);
  bool is_welcome(const Hello& hello) const;
  void seat(Visitor* visitor);
  bool is_complete() const;

  Fd fd_;
  Handle handle_{};
  std::vector<Visitor> visitors_;
  std::vector<Fd> seats_;
  Endpoint peer_{};
};

/// Null comm and kSuccess: call again with the same handle memory. Never blocks.
nccl_abi::Result connect_to(Handle* handle, Comm** out);

}  // namespace lyre::kernel_plugin
