#include "stack/io/sim/queue.h"

#include <algorithm>
#include <cstring>

#include "stack/base/check.h"
#include "stack/base/checksum.h"
#include "stack/io/complete_checksums.h"
#include "stack/io/sim/frame.h"
#include "stack/io/sim/segmentation.h"

namespace lyre::io::sim {
namespace {

constexpr uint32_t kSuperPacketBytesMax = 65536 + 64;
constexpr size_t kFreedAtOnce = 32;

uint32_t total_bytes(const PacketBuf& packet) {
  uint32_t bytes = packet.length;
  for (uint32_t i = 0; i < packet.piece_count; ++i) bytes += packet.pieces[i].length;
  return bytes;
}

uint32_t header_bytes(const PacketBuf& packet) {
  return kEthernetHeaderBytes + packet.l3_bytes + packet.l4_bytes;
}

}  // namespace

Queue::Queue(Link& link, int end, Memory& memory, uint8_t port_index, const MacAddress& mac)
    : link_(link), end_(end), memory_(&memory), port_index_(port_index) {
  const LinkOptions& options = link.options();
  const bool is_free = options.checksums != Checksums::kSoftware;
  capabilities_ = {.mac = mac,
                   .mtu_bytes = options.mtu_bytes,
                   .tso_bytes_max = options.tso_bytes_max,
                   .has_ipv6_tso = options.has_ipv6_tso,
                   .tx_pieces_max = options.tx_pieces_max,
                   .tso_segments_max = options.tso_segments_max,
                   .cut_segments_max = options.cut_segments_max,
                   .tx_checksum_in_hardware = is_free,
                   .rx_checksum_in_hardware = is_free};
  held_.resize(options.tx_ring_packets);
  gathered_.reserve(kSuperPacketBytesMax);
}

size_t Queue::tx_burst(std::span<PacketBuf* const> in) {
  size_t taken = 0;
  if (link_.is_closed(end_)) return drop(in);
  if (link_.options().tx_release == TxRelease::kBySending32 && !in.empty() &&
      link_.has_device(end_)) {
    free_oldest(held_count_ / kFreedAtOnce * kFreedAtOnce);
  }
  while (taken < in.size() && transmit(*in[taken]) == Taken::kYes) ++taken;
  taken_ += taken;
  memory_->release(in.first(taken));
  if (taken < in.size()) ++counters_.tx_full;
  return taken;
}

size_t Queue::drop(std::span<PacketBuf* const> in) {
  counters_.tx_dropped += in.size();
  memory_->release(in);
  return in.size();
}

Queue::Taken Queue::transmit(PacketBuf& packet) {
  if (!names_known_regions(packet)) {
    ++counters_.tx_dropped;
    return Taken::kYes;
  }
  const uint32_t cuts = cut_count(packet);
  LYRE_CHECK(cuts == 1 || !is_refused(packet));
  if (held_count_ == held_.size()) make_room();
  if (held_count_ == held_.size()) return Taken::kNoRoom;
  if (link_.ports_[end_].free.size() < cuts) return Taken::kNoRoom;
  gather(packet);
  if (link_.options().tx_release != TxRelease::kAtOnce) hold(packet);
  counters_.tx_packets += cuts;
  counters_.tx_bytes += gathered_.size() + (cuts - 1) * header_bytes(packet);
  send_cuts(packet, cuts);
  return Taken::kYes;
}

bool Queue::names_known_regions(const PacketBuf& packet) const {
  LYRE_CHECK(packet.piece_count <= capabilities_.tx_pieces_max);
  return std::all_of(packet.pieces, packet.pieces + packet.piece_count, [this](const BufRef& p) {
    return p.length == 0 || !memory_->bytes_of(p).empty();
  });
}

/// As rte_eth_tx_prepare() of a driver with these limits refuses a TSO packet, or a NIC stops at
/// it: the segments of the packet, and of each window of tso_bytes in it.
bool Queue::is_refused(const PacketBuf& packet) const {
  std::vector<uint32_t> ends;  // of the segments, counted from the first byte of payload
  uint32_t at = 0;
  for (const BufRef& piece : std::span(packet.pieces, packet.piece_count)) {
    const uint32_t part = memory_->region_segment_bytes(piece.region);
    if (part == 0) return true;
    for (uint64_t offset = piece.offset; offset < piece.offset + piece.length;) {
      const uint64_t end = std::min(piece.offset + piece.length, (offset / part + 1) * part);
      at += static_cast<uint32_t>(end - offset);
      offset = end;
      ends.push_back(at);
    }
  }
  if (1 + ends.size() > capabilities_.tso_segments_max) return true;
  for (uint32_t begin = 0; begin < at; begin += packet.tso_bytes) {
    const auto first = std::upper_bound(ends.begin(), ends.end(), begin);
    const auto last = std::lower_bound(ends.begin(), ends.end(),
                                       std::min<uint32_t>(at, begin + packet.tso_bytes));
    if (1 + static_cast<uint32_t>(last - first) + 1 > capabilities_.cut_segments_max) return true;
  }
  return false;
}

uint32_t Queue::cut_count(const PacketBuf& packet) const {
  const uint32_t bytes = total_bytes(packet);
  if (packet.tso_bytes == 0 || bytes <= header_bytes(packet) + packet.tso_bytes) {
    LYRE_CHECK(bytes <= capabilities_.mtu_bytes + kEthernetHeaderBytes);
    return 1;
  }
  const uint32_t payload = bytes - header_bytes(packet);
  LYRE_CHECK(payload <= capabilities_.tso_bytes_max && packet.wants_checksums);
  LYRE_CHECK(capabilities_.has_ipv6_tso || is_ipv4(packet));
  if (link_.options().has_super_packets) return 1;
  LYRE_CHECK(packet.tso_bytes + header_bytes(packet) <=
             capabilities_.mtu_bytes + kEthernetHeaderBytes);
  return (payload + packet.tso_bytes - 1) / packet.tso_bytes;
}

void Queue::gather(const PacketBuf& packet) {
  gathered_.assign(packet.data, packet.data + packet.length);
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    const std::span<const uint8_t> bytes = memory_->bytes_of(packet.pieces[i]);
    gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  }
}

/// Segments a TSO packet. REQUIRES: `count` free frames.
void Queue::send_cuts(const PacketBuf& packet, uint32_t count) {
  const auto total = static_cast<uint32_t>(gathered_.size());
  const uint32_t head = count == 1 ? 0 : header_bytes(packet);
  const TsoShape shape{packet.l3_bytes, packet.l4_bytes, packet.tso_bytes};
  uint32_t at = head;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t frame = link_.take_frame(end_);
    Link::Port& port = link_.ports_[end_];
    uint8_t* bytes = link_.bytes_of(port, frame);
    const uint32_t body = count == 1 ? total : std::min<uint32_t>(packet.tso_bytes, total - at);
    std::memcpy(bytes, gathered_.data(), head);
    std::memcpy(bytes + head, gathered_.data() + at, body);
    if (count > 1) make_cut_header({bytes, head}, shape, i, count, body, total - head);
    at += body;
    port.frames[frame].length = head + body;
    complete_checksums({bytes, head + body}, packet);
    link_.dispatch(end_, frame);
  }
}

void Queue::complete_checksums(std::span<uint8_t> frame, const PacketBuf& packet) {
  const Checksums kind = link_.options().checksums;
  if (!packet.wants_checksums || kind == Checksums::kTrusted) return;
  PacketBuf whole;
  whole.data = frame.data();
  whole.length = static_cast<uint32_t>(frame.size());
  whole.l3_bytes = packet.l3_bytes;
  whole.l4_bytes = packet.l4_bytes;
  complete_ip_checksum(whole);
  complete_tcp_checksum(whole, [](const BufRef&) { return std::span<const uint8_t>(); });
  if (kind == Checksums::kSoftware) ++counters_.software_checksums;
}

void Queue::hold(const PacketBuf& packet) {
  Held& held = held_[(held_first_ + held_count_++) % held_.size()];
  held.piece_count = packet.piece_count;
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    memory_->hold(packet.pieces[i].region);
    held.regions[i] = packet.pieces[i].region;
  }
}

/// As in real drivers, a transmit that finds the ring full of sent packets reclaims them.
void Queue::make_room() {
  if (link_.options().tx_release != TxRelease::kByReuse) return reclaim();
  if (link_.has_device(end_)) free_oldest(1);
}

void Queue::free_oldest(size_t count) {
  for (; count > 0; --count, --held_count_, ++held_first_) {
    const Held& freed = held_[held_first_ % held_.size()];
    for (uint32_t i = 0; i < freed.piece_count; ++i) memory_->let_go(freed.regions[i]);
  }
}

void Queue::reclaim() {
  const TxRelease release = link_.options().tx_release;
  if (release == TxRelease::kBySending32 || release == TxRelease::kByReuse) return;
  if (!link_.has_device(end_)) return;
  if (release == TxRelease::kOnReclaimWhileUp && !link_.is_up()) return;
  free_oldest(held_count_);
}

void Queue::close() {
  free_oldest(held_count_);
  while (head_ != Link::kNone) link_.give_back(1 - end_, take_arrived());
}

/// REQUIRES: there is one.
uint32_t Queue::take_arrived() {
  const uint32_t frame = head_;
  --arrived_count_;
  head_ = link_.ports_[1 - end_].frames[frame].next;
  if (head_ == Link::kNone) tail_ = Link::kNone;
  return frame;
}

void Queue::append(uint32_t frame) {
  const uint32_t ring_frames = link_.options().rx_ring_frames;
  if (ring_frames > 0 && arrived_count_ == ring_frames) {
    ++counters_.rx_missed;
    return link_.give_back(1 - end_, frame);
  }
  ++arrived_count_;
  auto& frames = link_.ports_[1 - end_].frames;
  frames[frame].next = Link::kNone;
  if (tail_ == Link::kNone) {
    head_ = frame;
  } else {
    frames[tail_].next = frame;
  }
  tail_ = frame;
}

size_t Queue::rx_burst(std::span<PacketBuf*> out) {
  size_t filled = 0;
  while (filled < out.size() && head_ != Link::kNone && link_.has_device(end_)) {
    const uint32_t frame = take_arrived();
    if (receive(frame, out[filled])) ++filled;
    link_.give_back(1 - end_, frame);
  }
  return filled;
}

bool Queue::receive(uint32_t frame, PacketBuf*& out) {
  Link::Port& sender = link_.ports_[1 - end_];
  const uint32_t length = sender.frames[frame].length;
  const std::span<const uint8_t> bytes(link_.bytes_of(sender, frame), length);
  PacketBuf* packet = scatter(bytes);
  if (packet == nullptr) {
    ++counters_.rx_missed;
    return false;
  }
  packet->port = port_index_;
  packet->flow_hash = link_.ports_[end_].hash.hash(packet->bytes());
  judge(bytes, *packet);
  ++counters_.rx_packets;
  counters_.rx_bytes += length;
  out = packet;
  return true;
}

/// A packet with the bytes of a frame, and those that follow it where one is not enough; nullptr
/// without buffers for all.
PacketBuf* Queue::scatter(std::span<const uint8_t> frame) {
  PacketBuf* first = nullptr;
  PacketBuf* last = nullptr;
  for (std::span<const uint8_t> left = frame; first == nullptr || !left.empty();) {
    PacketBuf* packet = memory_->alloc_rx();
    if (packet == nullptr || (first == nullptr && !can_take(*packet, frame.size()))) {
      if (packet != nullptr) memory_->release({&packet, 1});
      release_chain(*memory_, first);
      return nullptr;
    }
    const auto taken = static_cast<uint16_t>(std::min<size_t>(left.size(), packet->tailroom));
    std::memcpy(packet->data, left.data(), taken);
    packet->length = taken;
    packet->tailroom = static_cast<uint16_t>(packet->tailroom - taken);
    left = left.subspan(taken);
    if (first == nullptr) {
      first = packet;
    } else {
      last->next_slot = packet->slot;
      first->rest_bytes += taken;
      ++first->rest_slots;
    }
    last = packet;
  }
  return first;
}

bool Queue::can_take(const PacketBuf& first, size_t bytes) const {
  return bytes <= first.tailroom || link_.options().has_super_packets;
}

/// The checksum verdict of a NIC that verifies IPv4 and TCP; kUnknown for everything else.
void Queue::judge(std::span<const uint8_t> frame, PacketBuf& packet) const {
  const Checksums kind = link_.options().checksums;
  if (kind == Checksums::kSoftware) return;
  if (kind == Checksums::kTrusted) {
    packet.ip_checksum = packet.l4_checksum = ChecksumVerdict::kGood;
    return;
  }
  const uint8_t* ip = frame.data() + kEthernetHeaderBytes;
  if (frame.size() < kEthernetHeaderBytes + 20 || get16(frame.data() + 12) != 0x0800) return;
  const uint32_t header = (ip[0] & 0x0fu) * 4;
  const uint32_t total = get16(ip + 2);
  if (header < 20 || total < header || total > frame.size() - kEthernetHeaderBytes) return;
  const auto verdict = [](const ChecksumSum& sum) {
    return sum.fold() == 0xffff ? ChecksumVerdict::kGood : ChecksumVerdict::kBad;
  };
  ChecksumSum header_sum;
  header_sum.add({ip, header});
  packet.ip_checksum = verdict(header_sum);
  if (ip[9] != 6) return;
  ChecksumSum segment_sum;
  segment_sum.add({ip + 12, 8});
  segment_sum.add_u16(6);
  segment_sum.add_u16(static_cast<uint16_t>(total - header));
  segment_sum.add({ip + header, total - header});
  packet.l4_checksum = verdict(segment_sum);
}

}  // namespace lyre::io::sim
