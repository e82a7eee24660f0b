#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "libclient/include/lyre/lyre.h"

/// The transport of `lyre perf`: one interface to Lyre and to the kernel's sockets. Streams never
/// block; Network::wait() is the only function that sleeps.
namespace lyre::perf {

/// The most bytes of one write.
inline constexpr size_t kBlockBytesMax = size_t{4} << 20;
/// The bytes that a network reads from a stream at a time.
inline constexpr size_t kReadBytes = 256 * 1024;

/// Client and server poll their streams at least this often; at the end they wait this long for
/// acknowledgements.
inline constexpr int kWaitMs = 100;
inline constexpr int kDrainMs = 2000;

/// Keep-alive of each stream. A peer that vanishes while nothing is unacknowledged ends the stream
/// after 20 s: so does the default of `tcp.user_timeout_ms` while something is.
inline constexpr uint32_t kProbeIdleMs = 10'000;
inline constexpr uint32_t kProbeIntervalMs = 2000;
inline constexpr uint32_t kProbesMax = 5;

/// An error of one connection. The others go on.
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
  /// Returns memory for the next `bytes` (1 to kBlockBytesMax), which the caller fills before
  /// commit_write(), or an empty span when the stream has no room. Owner: the stream.
  virtual std::span<uint8_t> try_begin_write(size_t bytes) = 0;
  /// Sends the first `bytes` of the memory from try_begin_write().
  virtual void commit_write(size_t bytes) = 0;
  /// Passes committed bytes to the transport. True when none are left.
  virtual bool try_flush() = 0;
  /// Returns the next received bytes, or an empty span. Valid until consume().
  virtual std::span<const uint8_t> peek() = 0;
  virtual void consume(size_t bytes) = 0;
  /// The peer has closed and everything was consumed. Valid after peek() was empty.
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
  uint64_t unacked_bytes_max = 0;  ///< a stream with more unacknowledged bytes accepts none
};

/// Makes streams, and waits for them. Fails: throws tools::Failure.
class Network {
 public:
  virtual ~Network() = default;
  virtual std::unique_ptr<Stream> connect(const lyre_addr& remote) = 0;
  /// Returns the address with its port.
  virtual lyre_addr listen(const lyre_addr& local) = 0;
  /// nullptr when no connection waits.
  virtual std::unique_ptr<Stream> try_accept() = 0;
  /// Returns when a stream or the listener may have an event, or after timeout_ms. With 0 it
  /// processes events and does not wait.
  virtual void wait(int timeout_ms) = 0;
  /// Waits until the bytes written to destroyed streams are acknowledged, at most timeout_ms.
  virtual void drain(int timeout_ms) = 0;
  virtual const char* name() const = 0;
};

std::unique_ptr<Network> make_lyre_network(const NetworkOptions& options);
std::unique_ptr<Network> make_kernel_network(const NetworkOptions& options);

}  // namespace lyre::perf
