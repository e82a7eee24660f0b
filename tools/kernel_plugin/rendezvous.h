#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/kernel_plugin/comm.h"
#include "tools/kernel_plugin/settings.h"

namespace lyre::kernel_plugin {

struct ConnectState;

/// The contents of NCCL's handle. The listener decides how many sockets a comm has.
struct Handle {
  uint64_t magic;
  uint8_t nonce[16];
  Endpoint endpoint;
  uint16_t data_sockets;  // beside the control socket
  uint16_t threads;
  ConnectState* state;  // set by the connecting side between two calls of connect
};
static_assert(sizeof(Handle) <= nccl_abi::kHandleBytesMax);

/// The first bytes on every socket of a comm: the comm, and the index of the socket.
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

  /// A null comm with kSuccess: to be repeated.
  nccl_abi::Result accept(Comm** out);

 private:
  struct PendingConnection {
    Fd fd;
    Endpoint peer{};
    Hello hello{};
    size_t hello_bytes = 0;
  };
  enum class HelloProgress { kMore, kComplete, kRefused };

  void accept_pending();
  HelloProgress read_hello(PendingConnection* pending);
  bool is_of_this_comm(const Hello& hello) const;
  void adopt(PendingConnection* pending);
  bool is_complete() const;

  Fd fd_;
  Handle handle_{};
  std::vector<PendingConnection> pending_;
  std::vector<Fd> sockets_;
  Endpoint peer_{};
};

/// A null comm with kSuccess: to be repeated with the same handle memory. Never blocks.
nccl_abi::Result connect_to(Handle* handle, Comm** out);

}  // namespace lyre::kernel_plugin
