#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tools/lyre/failure.h"
#include "tools/lyre/perf/stream.h"
#include "tools/lyre/units.h"

namespace lyre::perf {
namespace {

std::string peer_of(const lyre_session* session) {
  lyre_addr remote{};
  lyre_session_addrs(session, nullptr, &remote);
  return tools::format_endpoint(remote.address, remote.port);
}

/// What the library's last call returned. The end of the daemon ends the command. Other errors end
/// this stream.
[[noreturn]] void throw_error(int64_t code) {
  if (code == LYRE_E_DAEMON || code == LYRE_E_EXPELLED) {
    throw tools::library_failure(static_cast<int>(code));
  }
  if (code == LYRE_E_SHUTDOWN) {
    throw tools::Failure(tools::kExitNoDaemon, lyre_strerror(LYRE_E_SHUTDOWN));
  }
  throw StreamError(lyre_last_error());
}

/// The parts that the copying and the zero-copy stream have in common.
class LyreStream : public Stream {
 public:
  explicit LyreStream(lyre_session* session) : session_(session) {}
  ~LyreStream() override { is_finished_ ? lyre_close(session_) : lyre_abort(session_); }
  bool is_open() override {
    const int state = lyre_state(session_);
    if (state == LYRE_ENDED) {
      if (const int code = lyre_session_error(session_); code != 0) throw_error(code);
    }
    if (state == LYRE_CONNECTING) return false;
    if (!is_probing_) probe_silence();
    return true;
  }
  bool is_at_end() const override { return is_at_end_; }
  void finish() override {
    is_finished_ = true;
    if (const int code = lyre_shutdown(session_); code != 0) throw_error(code);
  }
  std::string peer() const override { return peer_of(session_); }

 protected:
  lyre_session* session_;
  bool is_at_end_ = false;
  bool is_finished_ = false;

 private:
  /// REQUIRES: the handshake is over.
  void probe_silence() {
    // A failure here is returned by the next call on the session.
    lyre_set_option(session_, LYRE_OPTION_KEEPALIVE_INTERVAL_MS, kProbeIntervalMs);
    lyre_set_option(session_, LYRE_OPTION_KEEPALIVE_PROBES, kProbesMax);
    lyre_set_option(session_, LYRE_OPTION_KEEPALIVE_IDLE_MS, kProbeIdleMs);
    is_probing_ = true;
  }

  bool is_probing_ = false;
};

/// Sends blocks of the arena, and receives lent slices.
class ZeroCopyStream final : public LyreStream {
 public:
  ZeroCopyStream(lyre_session* session, uint64_t unacked_bytes_max)
      : LyreStream(session), unacked_bytes_max_(unacked_bytes_max) {}
  ~ZeroCopyStream() override {
    if (block_.data != nullptr) lyre_block_free(lyre_session_context(session_), &block_);
  }

  std::span<uint8_t> try_begin_write(size_t bytes) override {
    if (!try_flush() || lyre_unacked_bytes(session_) >= unacked_bytes_max_) return {};
    if (block_.data != nullptr && bytes <= block_.bytes) {
      return {static_cast<uint8_t*>(block_.data), bytes};
    }
    if (block_.data != nullptr) lyre_block_free(lyre_session_context(session_), &block_);
    block_ = {};
    const int code = lyre_block_alloc(lyre_session_context(session_), bytes, &block_);
    if (code == LYRE_E_AGAIN) return {};
    if (code != 0) throw_error(code);
    return {static_cast<uint8_t*>(block_.data), bytes};
  }
  void commit_write(size_t bytes) override {
    block_used_ = bytes;
    try_flush();
  }
  bool try_flush() override {
    if (block_used_ == 0) return true;
    const int code = lyre_send_block(session_, &block_, block_used_, 0);
    if (code == LYRE_E_AGAIN) return false;
    if (code != 0) throw_error(code);
    block_ = {};
    block_used_ = 0;
    return true;
  }
  std::span<const uint8_t> peek() override {
    if (next_ == count_ && !refill()) return {};
    const lyre_slice& slice = slices_[next_];
    return {static_cast<const uint8_t*>(slice.data) + used_, slice.bytes - used_};
  }
  void consume(size_t bytes) override {
    used_ += bytes;
    if (used_ < slices_[next_].bytes) return;
    used_ = 0;
    if (++next_ < count_) return;
    if (const int code = lyre_check_slices(session_); code != 0) throw_error(code);
    lyre_release(session_, slices_.data(), static_cast<int>(count_));
  }

 private:
  bool refill() {
    const int count = lyre_recv_slices(session_, slices_.data(), static_cast<int>(slices_.size()));
    next_ = count_ = 0;
    if (count == LYRE_E_AGAIN) return false;
    if (count < 0) throw_error(count);
    is_at_end_ = count == 0;
    count_ = static_cast<size_t>(count);
    return count > 0;
  }

  uint64_t unacked_bytes_max_;
  lyre_block block_{};
  size_t block_used_ = 0;  ///< nonzero: committed, and not accepted yet
  /// Released together, because one submission carries ten slots.
  std::array<lyre_slice, 20> slices_;
  size_t next_ = 0;
  size_t count_ = 0;
  size_t used_ = 0;
};

/// Uses the copying calls, as a program with its own buffers does.
class CopyingStream final : public LyreStream {
 public:
  CopyingStream(lyre_session* session, uint64_t unacked_bytes_max)
      : LyreStream(session), unacked_bytes_max_(unacked_bytes_max), in_(kReadBytes) {}

  std::span<uint8_t> try_begin_write(size_t bytes) override {
    if (!try_flush() || lyre_unacked_bytes(session_) >= unacked_bytes_max_) return {};
    if (out_.size() < bytes) out_.resize(bytes);
    return {out_.data(), bytes};
  }
  void commit_write(size_t bytes) override {
    out_sent_ = 0;
    out_end_ = bytes;
    try_flush();
  }
  bool try_flush() override {
    while (out_sent_ < out_end_) {
      const int64_t sent = lyre_send(session_, out_.data() + out_sent_, out_end_ - out_sent_);
      if (sent == LYRE_E_AGAIN) return false;
      if (sent < 0) throw_error(sent);
      out_sent_ += static_cast<size_t>(sent);
    }
    return true;
  }
  std::span<const uint8_t> peek() override {
    if (in_next_ == in_end_) {
      const int64_t count = lyre_recv(session_, in_.data(), in_.size());
      if (count == LYRE_E_AGAIN) return {};
      if (count < 0) throw_error(count);
      is_at_end_ = count == 0;
      in_next_ = 0;
      in_end_ = static_cast<size_t>(count);
    }
    return {in_.data() + in_next_, in_end_ - in_next_};
  }
  void consume(size_t bytes) override { in_next_ += bytes; }

 private:
  uint64_t unacked_bytes_max_;
  std::vector<uint8_t> out_;
  size_t out_sent_ = 0;
  size_t out_end_ = 0;
  std::vector<uint8_t> in_;
  size_t in_next_ = 0;
  size_t in_end_ = 0;
};

class LyreNetwork final : public Network {
 public:
  explicit LyreNetwork(const NetworkOptions& options) : options_(options) {
    lyre_options attach{.struct_bytes = sizeof attach};
    attach.socket_path = options.socket_path.empty() ? nullptr : options.socket_path.c_str();
    attach.label = "lyre perf";
    const int code = lyre_context_open(&attach, &context_);
    if (code != 0) throw tools::library_failure(code);
  }
  ~LyreNetwork() override { lyre_context_close(context_); }
  LyreNetwork(const LyreNetwork&) = delete;
  LyreNetwork& operator=(const LyreNetwork&) = delete;

  std::unique_ptr<Stream> connect(const lyre_addr& remote) override {
    lyre_session* session = nullptr;
    int code = lyre_connect(context_, nullptr, &remote, &session);
    while (code == LYRE_E_AGAIN) {
      wait(1);
      code = lyre_connect(context_, nullptr, &remote, &session);
    }
    if (code != 0) throw tools::library_failure(code);
    return make_stream(session);
  }
  lyre_addr listen(const lyre_addr& local) override {
    const int code = lyre_listen(context_, &local, SOMAXCONN, &listener_);
    if (code != 0) throw tools::library_failure(code);
    lyre_addr out{};
    lyre_listener_addr(listener_, &out);
    return out;
  }
  std::unique_ptr<Stream> try_accept() override {
    lyre_session* session = nullptr;
    const int code = lyre_accept(listener_, &session);
    if (code == LYRE_E_AGAIN) return nullptr;
    if (code != 0) throw tools::library_failure(code);
    return make_stream(session);
  }
  void wait(int timeout_ms) override {
    const int code = lyre_poll(context_, options_.is_spinning ? 0 : timeout_ms);
    if (code < 0) throw tools::library_failure(code);
  }
  void drain(int timeout_ms) override { lyre_drain(context_, timeout_ms); }
  const char* name() const override { return "lyre"; }

 private:
  std::unique_ptr<Stream> make_stream(lyre_session* session) const {
    if (options_.is_copying) {
      return std::make_unique<CopyingStream>(session, options_.unacked_bytes_max);
    }
    return std::make_unique<ZeroCopyStream>(session, options_.unacked_bytes_max);
  }

  NetworkOptions options_;
  lyre_context* context_ = nullptr;
  lyre_listener* listener_ = nullptr;
};

}  // namespace

std::unique_ptr<Network> make_lyre_network(const NetworkOptions& options) {
  return std::make_unique<LyreNetwork>(options);
}

}  // namespace lyre::perf
