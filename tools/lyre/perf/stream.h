#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "libclient/include/lyre/lyre.h"

/// The transport of `lyre perf`, behind which Lyre and the kernel's sockets look alike: streams
/// that never block, and one place to wait.
namespace lyre::perf {

/// Most bytes of one write.
inline constexpr size_t kBlockBytesMax = size_t{4} << 20;
/// What a network takes from a stream at a time.
inline constexpr size_t kReadBytes = 256 * 1024;

/// Client and server look at their streams at least this often, and wait this long at the end for
/// what they wrote to be acknowledged.
inline constexpr int kWaitMs = 100;
inline constexpr int kDrainMs = 2000;

/// One connection broke; others go on.
class StreamError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One connection. Nothing blocks. Fails: every function may throw StreamError.
class Stream {
 public:
  virtual ~Stream() = default;
  /// The handshake is over.
  virtual bool is_open() = 0;
  /// Memory for the next `bytes` (1 to kBlockBytesMax), to be filled and given to commit_write();
  /// empty when the stream can take nothing now. Owner: the stream.
  virtual std::span<uint8_t> try_begin_write(size_t bytes) = 0;
  /// Sends the first `bytes` of what try_begin_write() gave.
  virtual void commit_write(size_t bytes) = 0;
  /// Pushes on what is still ours; true when nothing is left.
  virtual bool try_flush() = 0;
  /// Received bytes that follow; empty when there are none now. Valid until consume().
  virtual std::span<const uint8_t> peek() = 0;
  virtual void consume(size_t bytes) = 0;
  /// The peer has finished and everything was consumed. Looks only when peek() was empty.
  virtual bool is_at_end() const = 0;
  /// FIN after everything written. REQUIRES: try_flush().
  virtual void finish() = 0;
  virtual std::string peer() const = 0;
};

struct NetworkOptions {
  std::string socket_path;         ///< Lyre: the daemon's
  bool is_copying = false;         ///< Lyre: send and receive through the copying calls
  bool is_zero_copy = false;       ///< kernel: send with MSG_ZEROCOPY
  bool is_spinning = false;        ///< never sleep
  uint64_t unacked_bytes_max = 0;  ///< a stream that has more under way takes no more
};

/// Where streams come from. Fails: throws tools::Failure.
class Network {
 public:
  virtual ~Network() = default;
  virtual std::unique_ptr<Stream> connect(const lyre_addr& remote) = 0;
  /// Returns the address with its port.
  virtual lyre_addr listen(const lyre_addr& local) = 0;
  /// nullptr when nobody has connected.
  virtual std::unique_ptr<Stream> try_accept() = 0;
  /// Returns when something may have happened on a stream or the listener, or after timeout_ms; 0
  /// only takes note of what happened.
  virtual void wait(int timeout_ms) = 0;
  /// Waits until what was written on streams that are gone is acknowledged, or timeout_ms is over.
  virtual void drain(int timeout_ms) = 0;
  virtual const char* name() const = 0;
};

std::unique_ptr<Network> make_lyre_network(const NetworkOptions& options);
std::unique_ptr<Network> make_kernel_network(const NetworkOptions& options);

}  // namespace lyre::perf
