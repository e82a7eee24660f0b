#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Copies of a port's packets on their way to `lyre pcap`: one ring in shared memory for each
/// worker, which the worker writes and the tool reads.
namespace lyre::channel {

/// Of CaptureRequest and of what is below. No range: `lyre` is installed with the daemon.
inline constexpr uint32_t kCaptureVersion = 1;
inline constexpr uint32_t kSnapBytesMax = 262144;
inline constexpr uint64_t kCaptureRingBytes = 4 << 20;
static_assert((kCaptureRingBytes & (kCaptureRingBytes - 1)) == 0);

enum class CaptureDirection : uint32_t { kReceived = 1, kSent = 2 };

/// What a packet is, in the ring before its bytes. The next record begins at a multiple of 8.
struct CaptureRecord {
  int64_t unix_ns;          ///< of the worker's turn
  uint32_t packet_bytes;    ///< of the packet
  uint32_t captured_bytes;  ///< of those, the first ones, that follow
  CaptureDirection direction;
  uint32_t reserved;
};
inline constexpr uint64_t kCaptureAlignment = 8;
static_assert(sizeof(CaptureRecord) % kCaptureAlignment == 0);

/// Positions are bytes since the beginning of the capture.
struct CaptureRing {
  alignas(64) std::atomic<uint64_t> tail;  ///< the worker has written what is before it
  std::atomic<uint64_t> dropped;           ///< by the worker: packets for which there was no room
  alignas(64) std::atomic<uint64_t> head;  ///< the tool has read what is before it
  alignas(64) uint8_t bytes[kCaptureRingBytes];
};

/// Bytes that a packet of which `captured_bytes` are kept occupies in the ring.
constexpr uint64_t capture_bytes_of(uint32_t captured_bytes) {
  const uint64_t bytes = sizeof(CaptureRecord) + uint64_t{captured_bytes};
  return (bytes + kCaptureAlignment - 1) & ~(kCaptureAlignment - 1);
}

/// The worker's end. Nothing that the other end writes makes it write outside of the ring or wait:
/// a reader whose index is impossible gets no more packets.
/// Thread: one.
class CaptureProducer {
 public:
  explicit CaptureProducer(CaptureRing& ring) : ring_(&ring) {}

  /// Begins a packet, whose record.captured_bytes have to be appended. False: there is no room.
  bool try_begin(const CaptureRecord& record) {
    if (!has_room(capture_bytes_of(record.captured_bytes))) return false;
    next_ = tail_ + capture_bytes_of(record.captured_bytes);
    append({reinterpret_cast<const uint8_t*>(&record), sizeof record});
    return true;
  }
  void append(std::span<const uint8_t> bytes) {
    const uint64_t offset = tail_ % kCaptureRingBytes;
    const size_t to_end = std::min<uint64_t>(bytes.size(), kCaptureRingBytes - offset);
    std::copy_n(bytes.data(), to_end, ring_->bytes + offset);
    std::copy_n(bytes.data() + to_end, bytes.size() - to_end, ring_->bytes);
    tail_ += bytes.size();
  }
  /// The packet that was begun is whole.
  void end() { tail_ = next_; }

  /// Behind the last packet, whether the reader sees it or not.
  uint64_t position() const { return tail_; }
  /// What the reader sees.
  uint64_t published() const { return published_; }
  /// Shows the reader the packets before `position`, and takes back those behind it.
  /// REQUIRES: what position() or published() returned, and not before published().
  void publish(uint64_t position) {
    tail_ = published_ = position;
    // Release: pairs with the acquire in CaptureConsumer::try_take(). The packets are visible
    // before the index.
    ring_->tail.store(position, std::memory_order_release);
  }
  void add_dropped(uint64_t packets) {
    dropped_ += packets;
    ring_->dropped.store(dropped_, std::memory_order_relaxed);  // a lone value
  }

 private:
  /// The reader's index is read only when the ring looks full, and once.
  bool has_room(uint64_t bytes) {
    if (kCaptureRingBytes - (tail_ - head_seen_) >= bytes) return true;
    // Acquire: pairs with the release in CaptureConsumer::publish(). The reader has read the bytes
    // that this index frees.
    const uint64_t head = ring_->head.load(std::memory_order_acquire);
    if (tail_ - head > kCaptureRingBytes || head < head_seen_) return false;
    head_seen_ = head;
    return kCaptureRingBytes - (tail_ - head_seen_) >= bytes;
  }

  CaptureRing* ring_;
  uint64_t tail_ = 0;  ///< also of what is not published yet
  uint64_t next_ = 0;  ///< behind the packet that was begun
  uint64_t published_ = 0;
  uint64_t head_seen_ = 0;
  uint64_t dropped_ = 0;
};

struct CapturedPacket {
  CaptureRecord record{};
  std::vector<uint8_t> bytes;
};

/// The tool's end. Thread: one.
class CaptureConsumer {
 public:
  explicit CaptureConsumer(CaptureRing& ring) : ring_(&ring) {}

  /// Copies the next packet out, whose room the worker may use again. False: there is none, or the
  /// ring is broken.
  bool try_take(CapturedPacket& out) {
    if (is_broken_ || head_ == tail()) return false;
    if (tail_seen_ - head_ < sizeof(CaptureRecord)) return fail();
    copy(head_, {reinterpret_cast<uint8_t*>(&out.record), sizeof out.record});
    const uint64_t bytes = capture_bytes_of(out.record.captured_bytes);
    if (out.record.captured_bytes > kSnapBytesMax || bytes > tail_seen_ - head_) return fail();
    out.bytes.resize(out.record.captured_bytes);
    copy(head_ + sizeof out.record, out.bytes);
    head_ += bytes;
    // Release: pairs with the acquire in CaptureProducer::has_room(). The bytes were read before
    // they are written again.
    ring_->head.store(head_, std::memory_order_release);
    return true;
  }
  uint64_t dropped() const { return ring_->dropped.load(std::memory_order_relaxed); }
  /// The other end is no worker of this version.
  bool is_broken() const { return is_broken_; }

 private:
  uint64_t tail() {
    if (head_ != tail_seen_) return tail_seen_;
    // Acquire: pairs with the release in CaptureProducer::publish().
    const uint64_t tail = ring_->tail.load(std::memory_order_acquire);
    if (tail - head_ > kCaptureRingBytes) {
      fail();
    } else {
      tail_seen_ = tail;
    }
    return tail_seen_;
  }
  bool fail() {
    is_broken_ = true;
    return false;
  }
  void copy(uint64_t position, std::span<uint8_t> out) const {
    const uint64_t offset = position % kCaptureRingBytes;
    const size_t to_end = std::min<uint64_t>(out.size(), kCaptureRingBytes - offset);
    std::copy_n(ring_->bytes + offset, to_end, out.data());
    std::copy_n(ring_->bytes, out.size() - to_end, out.data() + to_end);
  }

  CaptureRing* ring_;
  uint64_t head_ = 0;
  uint64_t tail_seen_ = 0;
  bool is_broken_ = false;
};

}  // namespace lyre::channel
