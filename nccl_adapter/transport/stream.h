#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/transport/chunk.h"

namespace lyre::nccl_adapter {

/// Is notified when something happened on a session.
class SessionOwner {
 public:
  /// May destroy the owner.
  virtual void on_ready() = 0;

 protected:
  ~SessionOwner() = default;
};

enum class Io {
  kOk,
  kAgain,     ///< not now
  kFinished,  ///< the peer's end, and everything before it was taken
  kFailed,    ///< error() says why
};

/// A session as a place to put frames in and take bytes out.
/// Owner: owns the session; destroying it aborts. Thread: that of the context.
class Stream {
 public:
  Stream() = default;
  explicit Stream(lyre_session* session) : session_(session) {}
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() { abort(); }

  bool is_open() const { return session_ != nullptr; }
  int state() const { return lyre_state(session_); }
  /// The code that ended the session, 0 if none did.
  int error() const;
  lyre_addr local() const;
  lyre_addr remote() const;
  void set_owner(SessionOwner* owner) { lyre_set_user(session_, owner); }

  /// Queues a few bytes behind what was sent before and sends what goes. kOk or kFailed.
  Io send_small(std::span<const uint8_t> bytes);
  /// Sends what earlier calls could not. kOk when nothing is left.
  Io flush();
  /// Sends the frame: its payload from where it lies if it has a region, else with the header in
  /// one arena block. kAgain: the frame was not taken.
  Io send_chunk(const Chunk& chunk);
  /// Whether a silent peer's TCP is asked for a sign of life; one that leaves kProbesMax in a
  /// row unanswered ends the session.
  void probe_silence(bool is_wanted);
  /// Data that the peer's TCP leaves unacknowledged for so long ends the session, whatever the
  /// daemon's user timeout is. REQUIRES: the session is established.
  void limit_silence(uint32_t silence_ms);
  /// Handed to the session in its life, and what of that the peer's TCP has not acknowledged.
  uint64_t sent_bytes() const { return sent_bytes_; }
  uint64_t unacked_bytes() const { return lyre_unacked_bytes(session_); }
  /// TCP's windowed minimum round trip; 0: not measured yet.
  uint64_t rtt_min_us() const { return lyre_rtt_min_us(session_); }
  /// TCP's retransmission timeout as of the last acknowledgement; 0: not known.
  uint64_t rto_us() const { return lyre_rto_us(session_); }
  /// The peer's TCP answers and has no room: its process does not read.
  bool is_window_closed() const { return lyre_is_window_closed(session_) != 0; }
  /// Something waits for the session to have room.
  bool is_blocked() const {
    return parked_bytes_ > 0 || parked_region_ != nullptr || !unsent_.empty();
  }
  /// Payload in this region waits for the session to have room.
  bool is_blocked_in(const lyre_region* region) const {
    return region != nullptr && parked_region_ == region;
  }

  /// The bytes that come next, as far as they lie in one piece; never empty with kOk.
  /// Owner: valid until consume() or release().
  Io peek(std::span<const uint8_t>* out);
  void consume(size_t bytes);
  /// Of what was received, so much was copied elsewhere. To be said before the release.
  void count_copied(uint64_t bytes) { lyre_count_copied(session_, 0, bytes); }
  /// Gives consumed memory back: this is what opens the window.
  void release();

  /// Ends in order: what was sent still goes out. What waits for room is dropped.
  void close();
  void abort();

 private:
  Io fail(int64_t code);
  void drop_parked();
  Io send_copied(const Chunk& chunk);
  Io send_in_place(const Chunk& chunk);

  lyre_session* session_ = nullptr;
  int error_ = 0;
  uint64_t sent_bytes_ = 0;
  std::vector<uint8_t> unsent_;  ///< small sends that did not fit
  lyre_block parked_{};          ///< a filled block that the session had no room for
  size_t parked_bytes_ = 0;
  lyre_region* parked_region_ = nullptr;  ///< the same for payload that is not copied
  const uint8_t* parked_data_ = nullptr;
  size_t parked_data_bytes_ = 0;
  std::array<lyre_slice, kSlicesPerTake> slices_{};
  int slice_count_ = 0;
  int slice_index_ = 0;     ///< the one that bytes are taken from
  int released_count_ = 0;  ///< given back already
  size_t slice_offset_ = 0;
};

}  // namespace lyre::nccl_adapter
