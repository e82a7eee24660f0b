#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/transport/transport.h"

namespace lyre::nccl_adapter {

/// A TCP session of the daemon that carries frames.
/// Owner: owns the session; destroying it aborts. Thread: that of the context.
class Stream final : public Transport {
 public:
  Stream() = default;
  explicit Stream(lyre_session* session) : session_(session) {}
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() override { abort(); }

  bool is_open() const { return session_ != nullptr; }
  int state() const { return lyre_state(session_); }
  lyre_addr local() const;
  lyre_addr remote() const;
  /// Whether a silent peer's TCP is asked for a sign of life; one that leaves kProbesMax in a
  /// row unanswered ends the session.
  void probe_silence(bool is_wanted);
  /// Data that the peer's TCP leaves unacknowledged for so long ends the session, whatever the
  /// daemon's user timeout is. REQUIRES: the session is established.
  void limit_silence(uint32_t silence_ms);

  void set_owner(SessionOwner* owner) override { lyre_set_user(session_, owner); }
  bool has_ended() const override { return state() == LYRE_ENDED; }
  int error() const override;
  const char* error_text() const override;
  void close() override;
  void abort() override;
  /// By a FIN, which TCP acknowledges at once.
  void end_sending() override;
  Io send_small(std::span<const uint8_t> bytes) override;
  Io flush() override;
  /// Without a region the payload goes with the header in one arena block.
  Io send_chunk(const Chunk& chunk) override;
  uint64_t unacked_bytes() const override { return lyre_unacked_bytes(session_); }
  /// TCP's windowed minimum.
  uint64_t rtt_min_us() const override { return lyre_rtt_min_us(session_); }
  /// TCP sends again after one retransmission timeout, which is that of the last acknowledgement,
  /// and after two more if that was lost, too (RFC 6298 5.5).
  int64_t patience_ns() const override {
    return static_cast<int64_t>(lyre_rto_us(session_)) * 1'000 * kStallTimeouts;
  }
  bool is_window_closed() const override { return lyre_is_window_closed(session_) != 0; }
  bool is_blocked() const override {
    return parked_bytes_ > 0 || parked_region_ != nullptr || !unsent_.empty();
  }
  bool is_blocked_in(const lyre_region* region) const override {
    return region != nullptr && parked_region_ == region;
  }
  bool has_read_right() override;
  /// The daemon is told, too.
  void count_copied(uint64_t bytes) override;

 private:
  Io take_slices(std::span<lyre_slice> out, size_t* count) override;
  void give_back(std::span<const lyre_slice> slices) override;
  Io fail(int64_t code);
  void drop_parked();
  Io send_copied(const Chunk& chunk);
  Io send_in_place(const Chunk& chunk);

  lyre_session* session_ = nullptr;
  int error_ = 0;
  bool is_sending_over_ = false;
  std::vector<uint8_t> unsent_;  ///< small sends that did not fit
  lyre_block parked_{};          ///< a filled block that the session had no room for
  size_t parked_bytes_ = 0;
  lyre_region* parked_region_ = nullptr;  ///< the same for payload that is not copied
  const uint8_t* parked_data_ = nullptr;
  size_t parked_data_bytes_ = 0;
};

}  // namespace lyre::nccl_adapter
