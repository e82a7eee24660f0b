#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/observe/telemetry.h"
#include "nccl_adapter/protocol/hello.h"
#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/foreign_lines.h"
#include "nccl_adapter/transport/stream.h"

namespace lyre::nccl_adapter {

/// What becomes of a stream whose hello is complete.
struct Decision {
  AnswerCode code = AnswerCode::kWelcome;
  std::string why;
  uint64_t placed = 0;      ///< messages, of a comm that was closed in order
  bool is_foreign = false;  ///< counted and logged as foreign; else a late peer

  static Decision foreign(AnswerCode code, const char* why) { return {code, why, 0, true}; }
  static Decision late(AnswerCode code, const char* why, uint64_t placed = 0) {
    return {code, why, placed, false};
  }
};

/// Decides which comm a stream joins.
class HelloReceiver {
 public:
  /// With kWelcome the stream was taken, and `welcome`, an answer, was the first thing sent on it;
  /// otherwise the stream is left alone.
  virtual Decision on_hello(const Hello& hello, const std::string& address, Stream* stream,
                            std::span<const uint8_t> welcome) = 0;

 protected:
  ~HelloReceiver() = default;
};

/// The one TCP listener of an instance, on all its ports. It reads every hello, welcomes peers and
/// rejects other connections. It keeps its TCP port when the daemon is lost and found again: peers
/// know no other.
/// Thread: under the instance's lock. Owner: the instance.
class Acceptor {
 public:
  /// All are borrowed for the acceptor's life.
  /// Fails: nullptr with a line in the log. Blocks while the daemon opens the listener, at most
  /// twice the patience of the context (limits.h).
  static std::unique_ptr<Acceptor> open(Environment* environment, HelloReceiver* receiver,
                                        Telemetry* telemetry,
                                        ForeignLines* lines = &ForeignLines::of_process());
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  uint16_t port() const { return port_; }
  lyre_listener* listener() const { return listener_; }
  /// Connections whose hello is not complete.
  size_t pending() const { return pending_.size(); }
  /// The daemon is lost, and the listener with it.
  void on_detached();
  /// Listens again on the same port. Blocks as open(). Fails: false; try again.
  bool on_attached();

  /// Accepts every connection that waits.
  void on_ready();
  /// Rejects connections without a hello in time.
  void expire();

 private:
  struct PendingConnection final : SessionOwner {
    void on_ready() override { acceptor->on_readable(this); }
    Acceptor* acceptor = nullptr;
    Stream stream;
    std::string address;
    std::vector<uint8_t> heard;
    int64_t deadline_ns = 0;
  };

  Acceptor(Environment* environment, HelloReceiver* receiver, Telemetry* telemetry,
           ForeignLines* lines)
      : environment_(environment), receiver_(receiver), telemetry_(telemetry), lines_(lines) {}
  /// A LYRE_E code.
  int listen();

  /// May destroy the connection, as all below.
  void on_readable(PendingConnection* pending);
  void on_hello(PendingConnection* pending, const Hello& hello);
  void refuse(PendingConnection* pending, const Decision& decision,
              uint16_t version = kProtocolVersionMax);
  /// `is_version`: because of its protocol version.
  void reject_foreign(const PendingConnection& pending, const std::string& why, bool is_version);
  void reject(PendingConnection* pending, const char* why);
  void forget(PendingConnection* pending);
  std::vector<uint8_t> answer(const PendingConnection& pending, const Decision& decision,
                              uint16_t version) const;

  Environment* environment_;
  HelloReceiver* receiver_;
  Telemetry* telemetry_;
  ForeignLines* lines_;
  lyre_listener* listener_ = nullptr;
  uint16_t port_ = 0;  ///< 0: the daemon chooses
  std::vector<std::unique_ptr<PendingConnection>> pending_;
};

}  // namespace lyre::nccl_adapter
