#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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

/// What a lane carries frames with: a place to put frames in and take bytes out. Both directions
/// keep their order. Nothing is lost without an error.
/// Received bytes come in slices, of which several are taken at a time: no virtual call for each.
/// Owner: owns its connection; destroying it aborts. Thread: under the instance's lock.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  /// `owner`, borrowed, is notified when something happened.
  virtual void set_owner(SessionOwner* owner) = 0;
  /// It carries nothing any more.
  virtual bool has_ended() const = 0;
  /// The LYRE_E code that ended it, 0 if none did.
  virtual int error() const = 0;
  /// Its text, which may be more exact than the code.
  virtual const char* error_text() const { return lyre_strerror(error()); }
  /// Ends in order: what was sent still goes out. What waits for room is dropped.
  virtual void close() = 0;
  virtual void abort() = 0;
  /// Nothing follows what was sent, and the peer's host is told so: a few bytes alone it may
  /// acknowledge late. Small sends after this are dropped. REQUIRES: !is_blocked(), no chunk
  /// follows.
  virtual void end_sending() {}

  // ---- Sending ----

  /// Queues a few bytes behind what was sent before and sends what goes. kOk or kFailed.
  virtual Io send_small(std::span<const uint8_t> bytes) = 0;
  /// Sends what earlier calls could not. kOk when nothing is left.
  virtual Io flush() = 0;
  /// Sends the frame: its payload from where it lies if it has a region. kAgain: the frame was not
  /// taken.
  virtual Io send_chunk(const Chunk& chunk) = 0;
  /// Handed over so far, and what of that the peer's host has not acknowledged.
  uint64_t sent_bytes() const { return sent_bytes_; }
  virtual uint64_t unacked_bytes() const = 0;
  /// The smallest round trip; 0: not measured yet.
  virtual uint64_t rtt_min_us() const = 0;
  /// The time in which it sends again what is not acknowledged, often enough; 0: not known.
  virtual int64_t patience_ns() const = 0;
  /// The peer's host answers and has no room: its process does not read.
  virtual bool is_window_closed() const = 0;
  /// Something waits for room.
  virtual bool is_blocked() const = 0;
  /// Payload in this region waits for room.
  virtual bool is_blocked_in(const lyre_region* region) const = 0;

  // ---- Receiving ----

  /// The bytes that come next, as far as they lie in one piece; never empty with kOk.
  /// Owner: valid until consume() or release().
  Io peek(std::span<const uint8_t>* out);
  void consume(size_t bytes);
  /// Whether what was read so far was what the peer sent: memory may be taken back from a process
  /// that was slow. False: error() says why. To be asked before anything relies on what was read.
  virtual bool has_read_right() { return true; }
  /// Of what was received, so much was copied elsewhere. To be said before the release.
  virtual void count_copied(uint64_t bytes) { copied_bytes_ += bytes; }
  /// Payload that this process copied, to send it or as it was received.
  uint64_t copied_bytes() const { return copied_bytes_; }
  /// Gives consumed memory back: this is what lets the peer send more.
  void release();

 protected:
  /// REQUIRES: nothing is lent here: release_all().
  Transport& operator=(Transport&& other) noexcept;
  /// The same for what was not consumed: nobody takes it any more.
  void release_all();
  /// Takes what has come. kOk: `*count` slices, at least one and at most out.size().
  virtual Io take_slices(std::span<lyre_slice> out, size_t* count) = 0;
  virtual void give_back(std::span<const lyre_slice> slices) = 0;

  uint64_t sent_bytes_ = 0;
  uint64_t copied_bytes_ = 0;

 private:
  std::array<lyre_slice, kSlicesPerTake> slices_{};
  size_t slice_count_ = 0;
  size_t slice_index_ = 0;     ///< the one that bytes are taken from
  size_t released_count_ = 0;  ///< given back already
  size_t slice_offset_ = 0;
};

}  // namespace lyre::nccl_adapter
