#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/hello.h"
#include "nccl_adapter/transport/stream.h"

namespace lyre::nccl_adapter {

/// One attempt to make a stream: TCP's handshake, our hello, the peer's answer.
/// Thread: under the instance's lock.
class Dial final : public SessionOwner {
 public:
  enum class State {
    kPending,
    kWelcome,  ///< answer() and take_stream()
    kRefused,  ///< answer() says why
    kFailed,   ///< error() and why()
  };

  /// `waiter`, borrowed, is notified when advance() may have something to do.
  /// `silence_ms`: see Stream::limit_silence().
  Dial(const lyre_addr& local, const lyre_addr& remote, const Hello& hello, uint32_t silence_ms,
       SessionOwner* waiter);

  /// One step; never blocks. `context` is the attachment's; the peer's daemon must have our hello
  /// by `deadline_ns`, or kDialNsMin after the handshake if that is later.
  State advance(lyre_context* context, int64_t now_ns, int64_t deadline_ns);
  /// TCP is through and the peer's daemon has our hello: only the peer's process is waited for.
  bool is_hello_acknowledged() const;
  /// The peer's present daemon has accepted it. If it were aborted, the peer's process would warn
  /// of a connection that left without a hello.
  bool is_accepted(int64_t now_ns) const;
  const Answer& answer() const { return answer_; }
  const lyre_addr& remote() const { return remote_; }
  uint32_t incarnation() const { return hello_.incarnation; }
  Stream take_stream() { return std::move(stream_); }
  /// The LYRE_E code that ended it, 0 when the peer just closed.
  int error() const { return error_; }
  const std::string& why() const { return why_; }

  void on_ready() override { waiter_->on_ready(); }

 private:
  enum class Phase { kStart, kDialing, kAwaitAnswer, kOver };

  State start(lyre_context* context);
  State greet(int64_t now_ns);
  State read_answer();
  State ended();
  State fail(int code, std::string why);

  lyre_addr local_;
  lyre_addr remote_;
  Hello hello_;
  uint32_t silence_ms_;
  SessionOwner* waiter_;
  Phase phase_ = Phase::kStart;
  State result_ = State::kPending;
  int64_t greeted_ns_ = 0;  ///< when the hello was sent
  Stream stream_;
  std::vector<uint8_t> answer_bytes_;
  Answer answer_;
  int error_ = 0;
  std::string why_;
};

}  // namespace lyre::nccl_adapter
