#include "stack/io/dpdk/queue.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stack/base/check.h"
#include "stack/io/complete_checksums.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/mbuf_layout.h"
#include "stack/io/dpdk/watched_pool.h"

namespace lyre::io::dpdk {
namespace {

ChecksumVerdict ip_verdict(uint64_t flags) {
  const uint64_t verdict = flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
  if (verdict == RTE_MBUF_F_RX_IP_CKSUM_GOOD) return ChecksumVerdict::kGood;
  if (verdict == RTE_MBUF_F_RX_IP_CKSUM_BAD) return ChecksumVerdict::kBad;
  return ChecksumVerdict::kUnknown;
}

ChecksumVerdict l4_verdict(uint64_t flags) {
  const uint64_t verdict = flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
  if (verdict == RTE_MBUF_F_RX_L4_CKSUM_GOOD) return ChecksumVerdict::kGood;
  // "None": a sender on this machine left the checksum to an offload, so the data was never on a
  // wire.
  if (verdict == RTE_MBUF_F_RX_L4_CKSUM_NONE) return ChecksumVerdict::kGood;
  if (verdict == RTE_MBUF_F_RX_L4_CKSUM_BAD) return ChecksumVerdict::kBad;
  return ChecksumVerdict::kUnknown;
}

/// Takes the segments of a super-packet apart: each is a packet of the pool of its own from now on.
void chain_received(rte_mbuf* mbuf) {
  PacketBuf& first = *packet_of(mbuf);
  const auto segments = mbuf->nb_segs;
  const uint32_t bytes = mbuf->pkt_len;
  for (rte_mbuf* segment = mbuf; segment != nullptr;) {
    rte_mbuf* const next = segment->next;
    segment->next = nullptr;
    segment->nb_segs = 1;
    segment->pkt_len = segment->data_len;
    describe(*packet_of(segment), *segment);
    if (next != nullptr) packet_of(segment)->next_slot = packet_of(next)->slot;
    segment = next;
  }
  first.rest_bytes = bytes - first.length;
  first.rest_slots = static_cast<uint16_t>(segments - 1);
}

/// Whether the `bytes` that follow those of `head` are copied to it: see push_bytes_max.
bool is_pushed(const DriverQuirks& quirks, const rte_mbuf& head, uint32_t bytes) {
  return head.nb_segs == 1 && head.data_len + bytes <= quirks.push_bytes_max &&
         bytes <= rte_pktmbuf_tailroom(&head);
}

/// Appends to a packet of one segment, which has the room.
void append_bytes(rte_mbuf& head, const uint8_t* from, uint16_t bytes) {
  std::memcpy(rte_pktmbuf_mtod_offset(&head, uint8_t*, head.data_len), from, bytes);
  head.data_len = static_cast<uint16_t>(head.data_len + bytes);
  head.pkt_len = head.data_len;
}

/// When the memif driver finds no buffer for the rest of a packet, it does not give back those that
/// it has filled: it is asked only for packets for which there are buffers. The others wait. It
/// packs a super-packet into as few buffers as hold it, also where each segment came in a slot of
/// the ring of its own (eth_memif_rx(): buffers smaller than a slot, 22.11 to 26.07). With LRO a
/// packet has its buffers before it arrives.
size_t packets_that_fit(const Memory& memory, const QueueSetup& setup) {
  const bool may_lack = setup.quirks->super_packets == SuperPackets::kUncut;
  if (!may_lack || setup.super_packet_slots == 0) return SIZE_MAX;
  return memory.rx_slots_free() / setup.super_packet_slots;
}

struct OnWire {
  uint32_t packets;
  uint32_t bytes;
};

/// What becomes of a packet on the wire: the NIC cuts a TSO packet. Whether virtio's host does is
/// not known, so that its packets count as the host gets them.
OnWire on_wire(const DriverQuirks& quirks, const rte_mbuf& mbuf) {
  const bool is_cut = (mbuf.ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;
  if (!is_cut || quirks.super_packets == SuperPackets::kLro) return {1, mbuf.pkt_len};
  const uint32_t headers = mbuf.l2_len + mbuf.l3_len + mbuf.l4_len;
  const uint32_t cuts = (mbuf.pkt_len - headers + mbuf.tso_segsz - 1) / mbuf.tso_segsz;
  return {cuts, mbuf.pkt_len + (cuts - 1) * headers};
}

/// Of a driver that may be offered only what fits its ring; 0: every other one.
uint32_t limiting_ring(const QueueSetup& setup) {
  return setup.quirks->drops_when_full ? setup.tx_descriptors : 0;
}

}  // namespace

Queue::Queue(const QueueSetup& setup, Memory& memory) : setup_(setup), memory_(memory) {
  offer_.set_ring(limiting_ring(setup_));
  memory_.add_queue(*this);
}

size_t Queue::rx_burst(std::span<PacketBuf*> out) {
  if (!is_running_) return 0;
  rte_mbuf* mbufs[kBurstMax];
  const uint16_t got = receive({mbufs, std::min(out.size(), kBurstMax)});
  for (uint16_t i = 0; i < got; ++i) rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void*));
  size_t filled = 0;
  for (uint16_t i = 0; i < got; ++i) {
    if (receive_one(mbufs[i])) out[filled++] = packet_of(mbufs[i]);
  }
  return filled;
}

uint16_t Queue::receive(std::span<rte_mbuf*> out) {
  if (seen_count_ == 0) return receive_from_driver(out);
  const uint16_t got = std::min(static_cast<uint16_t>(out.size()), seen_count_);
  std::copy_n(seen_.begin(), got, out.begin());
  std::copy(seen_.begin() + got, seen_.begin() + seen_count_, seen_.begin());
  seen_count_ -= got;
  return got;
}

uint16_t Queue::receive_from_driver(std::span<rte_mbuf*> out) {
  const auto limit = static_cast<uint16_t>(std::min(out.size(), packets_that_fit(memory_, setup_)));
  const auto receive = [&] {
    return rte_eth_rx_burst(setup_.port_id, setup_.queue_id, out.data(), limit);
  };
  const auto is_up = [this] { return is_link_up(); };
  const uint16_t got = setup_.quirks->frees_while_polled ? calls_.call(is_up, receive) : receive();
  if (setup_.watched_pool != nullptr) setup_.watched_pool->on_received(out.first(got));
  return got;
}

/// Whether packets have arrived. Not every driver can count them without receiving them.
bool Queue::look_ahead() {
  if (seen_count_ == 0) {
    seen_count_ = receive_from_driver(seen_);
  }
  return seen_count_ > 0;
}

Arming Queue::arm() {
  if (!is_running_) return Arming::kArmed;  // it receives nothing until resume()
  if (wait_ == nullptr) return Arming::kUnsure;
  if (wait_->is_level()) return Arming::kArmed;
  const bool was_armed = is_armed_;
  is_armed_ = wait_->arm();
  if (!was_armed) rx_packets_at_arming_ = counters_.rx_packets;
  if (look_ahead()) return Arming::kPackets;
  return was_armed && is_armed_ && unannounced_ < kUnannouncedMax ? Arming::kArmed
                                                                  : Arming::kUnsure;
}

/// A doorbell often rings a moment before a packet arrives: only a sleep that nothing ended speaks
/// for packets that were not announced. One alone is no proof, because a packet may arrive between
/// the end of a sleep and the look at the queue.
void Queue::disarm(Woken woken) {
  if (wait_ == nullptr || wait_->is_level()) return;
  if (woken == Woken::kByPackets) wait_->clear();
  if (!is_armed_) return;
  wait_->disarm();
  is_armed_ = false;
  if (woken == Woken::kByPackets) {
    unannounced_ = 0;
  } else if (woken == Woken::kByTimeout && counters_.rx_packets != rx_packets_at_arming_) {
    unannounced_ = std::min(unannounced_ + 1, kUnannouncedMax);
  }
}

/// The bytes of an external buffer are outside of the receive pool, which clients read packets in.
/// Device arguments that ask for such buffers are refused: see prepare_nic().
bool Queue::receive_one(rte_mbuf* mbuf) {
  PacketBuf& packet = *packet_of(mbuf);
  if (RTE_MBUF_HAS_EXTBUF(mbuf)) [[unlikely]] {
    rte_pktmbuf_free(mbuf);
    ++counters_.rx_missed;
    return false;
  }
  if (mbuf->nb_segs == 1 || linearise_received(mbuf)) {
    describe(packet, *mbuf);
  } else if (setup_.super_packet_slots > 0) {
    chain_received(mbuf);
  } else {
    rte_pktmbuf_free(mbuf);
    ++counters_.rx_missed;
    return false;
  }
  packet.port = setup_.index;
  if (setup_.is_rx_trusted) {
    packet.ip_checksum = packet.l4_checksum = ChecksumVerdict::kGood;
  } else {
    packet.ip_checksum = ip_verdict(mbuf->ol_flags);
    packet.l4_checksum = l4_verdict(mbuf->ol_flags);
  }
  if ((mbuf->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0) packet.flow_hash = mbuf->hash.rss;
  ++counters_.rx_packets;
  counters_.rx_bytes += packet.length + packet.rest_bytes;
  return true;
}

bool Queue::linearise_received(rte_mbuf* mbuf) {
  const uint32_t rest_bytes = mbuf->pkt_len - mbuf->data_len;
  if (rest_bytes > rte_pktmbuf_tailroom(mbuf)) return false;
  uint8_t* to = rte_pktmbuf_mtod_offset(mbuf, uint8_t*, mbuf->data_len);
  for (rte_mbuf* rest = mbuf->next; rest != nullptr; rest = rest->next) {
    std::memcpy(to, rte_pktmbuf_mtod(rest, void*), rest->data_len);
    to += rest->data_len;
  }
  rte_pktmbuf_free(mbuf->next);
  mbuf->next = nullptr;
  mbuf->nb_segs = 1;
  mbuf->data_len = static_cast<uint16_t>(mbuf->data_len + rest_bytes);
  counters_.rx_linearised_bytes += rest_bytes;
  return true;
}

size_t Queue::tx_burst(std::span<PacketBuf* const> in) {
  if (!is_running_) return drop(in);
  flush_pending();
  size_t taken = 0;
  bool has_asked = false;
  while (pending_count_ == 0 && taken < in.size()) {
    size_t count = prepare_burst(in.subspan(taken));
    if (count == 0 && !std::exchange(has_asked, true)) {
      // The missing buffers may be in the rings, and drivers that are not called free none.
      memory_.reclaim();
      count = prepare_burst(in.subspan(taken));
    }
    if (count == 0) break;
    taken += count;
    taken_ += count;
    flush_pending();
  }
  if (taken < in.size()) {
    ++counters_.tx_full;
    // What is missing may be in the ring of another port. A driver that holds so many packets must
    // free some.
    if (pending_count_ > 0 || tx_held() >= kFreedWithinPackets) note_wait();
  }
  return taken;
}

size_t Queue::drop(std::span<PacketBuf* const> in) {
  for (PacketBuf* packet : in) rte_pktmbuf_free(mbuf_of(packet));
  counters_.tx_dropped += in.size();
  taken_ += in.size();
  note_freed();
  return in.size();
}

/// Turns packets into mbufs in pending_ and returns how many were taken.
size_t Queue::prepare_burst(std::span<PacketBuf* const> in) {
  const size_t limit = std::min(in.size(), kBurstMax);
  size_t taken = 0;
  while (taken < limit) {
    rte_mbuf* ready = nullptr;
    const Prepared result = prepare(*in[taken], ready);
    if (result == Prepared::kNoBuffer) break;
    ++taken;
    if (result == Prepared::kReady) pending_[pending_count_++] = ready;
  }
  if (setup_.has_tcp_checksum) drop_unsendable();
  return taken;
}

/// Runs tx_prepare, with which some drivers complete offload requests, and drops what it refuses.
void Queue::drop_unsendable() {
  size_t good = 0;
  while (good < pending_count_) {
    good += rte_eth_tx_prepare(setup_.port_id, setup_.queue_id, pending_.data() + good,
                               static_cast<uint16_t>(pending_count_ - good));
    if (good == pending_count_) return;
    rte_pktmbuf_free(pending_[good]);
    std::copy(pending_.begin() + good + 1, pending_.begin() + pending_count_,
              pending_.begin() + good);
    --pending_count_;
    ++counters_.tx_dropped;
  }
}

void Queue::flush_pending() {
  if (pending_count_ == 0) return;
  size_t offered = pending_count_;
  if (offer_.is_limited()) {
    const std::span<rte_mbuf* const> pending(pending_.data(), pending_count_);
    offered = offer_.fitting(pending, marks_);
    if (offered < pending_count_) {
      ask_to_free();
      note_freed();
      offered = offer_.fitting(pending, marks_);
    }
    if (offered == 0) return;
  }
  OnWire offer[kBurstMax];  // made before the burst: a sent packet must not be accessed
  for (size_t i = 0; i < offered; ++i) offer[i] = on_wire(*setup_.quirks, *pending_[i]);
  const uint16_t sent = burst_pending(static_cast<uint16_t>(offered));
  for (uint16_t i = 0; i < sent; ++i) {
    counters_.tx_packets += offer[i].packets;
    counters_.tx_bytes += offer[i].bytes;
  }
  std::copy(pending_.begin() + sent, pending_.begin() + pending_count_, pending_.begin());
  pending_count_ -= sent;
  note_freed();
}

/// Offers the driver the first `count` of what is pending. The last packet is marked where it was
/// sent: when the driver has freed it, and those before it, it has freed all that were taken until
/// now, unless some stay pending.
uint16_t Queue::burst_pending(uint16_t count) {
  const bool marks_all = setup_.quirks->frees_in_any_order && !setup_.is_faulty;
  const auto send = [&] {
    return rte_eth_tx_burst(setup_.port_id, setup_.queue_id, pending_.data(), count);
  };
  if (setup_.quirks->is_virtual) {
    const auto is_up = [this] { return is_link_up(); };
    return setup_.quirks->frees_while_polled ? calls_.call(is_up, send) : send();
  }
  const size_t first = marks_all ? 0 : count - 1u;
  // Before the burst: a sent packet must not be accessed.
  rte_mbuf* held[kBurstMax];
  for (size_t i = first; i < count; ++i) held[i] = SentMarks::hold(pending_[i]);
  const uint16_t sent = setup_.quirks->announces_itself ? calls_.call(send) : send();
  const uint64_t descriptors = sent > 0 ? offer_.note_sent() : 0;
  for (size_t i = first; i < sent; ++i) {
    marks_.add(held[i], i + 1 == pending_count_ ? taken_ : 0, descriptors);
  }
  for (size_t i = std::max<size_t>(first, sent); i < count; ++i) SentMarks::release(held[i]);
  is_unmarked_ = !marks_all && sent < count && (is_unmarked_ || sent > 0);
  return sent;
}

void Queue::note_freed() {
  // Acquire: pairs with on_closed(). The driver's last access to the packets comes before.
  if (!is_running_ && is_closed_.load(std::memory_order_acquire)) {
    marks_.forget();
    is_unmarked_ = false;
  }
  freed_ = std::max(freed_, marks_.freed());
  if (marks_.empty() && !is_unmarked_ && pending_count_ == 0) freed_ = taken_;
  freed_shown_.store(freed_, std::memory_order_relaxed);
}

/// Of TxProgress. One writer: no read-modify-write instruction is needed.
void Queue::note_wait() {
  waits_.store(waits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

Queue::~Queue() {
  memory_.remove_queue(*this);
  drop_pending();
  rte_pktmbuf_free_bulk(seen_.data(), seen_count_);
}

void Queue::drop_pending() {
  for (size_t i = 0; i < pending_count_; ++i) rte_pktmbuf_free(pending_[i]);
  counters_.tx_dropped += pending_count_;
  pending_count_ = 0;
  note_freed();
}

void Queue::suspend() {
  if (!is_running_) return;
  drop_pending();
  if (is_armed_) wait_->disarm();
  is_armed_ = false;
  unannounced_ = kUnannouncedMax;
  is_running_ = false;
}

void Queue::renew(const QueueSetup& setup) {
  note_freed();
  is_closed_.store(false, std::memory_order_relaxed);
  setup_ = setup;
  offer_.set_ring(limiting_ring(setup_));
  can_reclaim_ = true;
}

Queue::Prepared Queue::prepare(PacketBuf& packet, rte_mbuf*& out) {
  rte_mbuf& mbuf = *mbuf_of(&packet);
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    if (packet.pieces[i].length > 0 && memory_.regions().bytes_of(packet.pieces[i]).empty()) {
      return drop_one(mbuf);
    }
  }
  mbuf.data_off = static_cast<uint16_t>(packet.data - static_cast<uint8_t*>(mbuf.buf_addr));
  mbuf.data_len = static_cast<uint16_t>(packet.length);
  mbuf.pkt_len = packet.length;
  mbuf.ol_flags = 0;
  // Buffers are taken before checksums are written: without a buffer the caller's packet is
  // unchanged.
  const uint32_t segments_max =
      packet.is_tso() ? setup_.limits.tso_segments_max : setup_.limits.segments_max;
  // Also a TSO packet, though the worker keeps to what it was told of a region when it was added: a
  // device that was opened again may not reach it.
  if (segments_needed(packet) > segments_max) {
    out = copy_out(packet);
    if (out == nullptr) return Prepared::kNoBuffer;
    // A driver that takes a packet of more segments may stop its queue.
    if (out->nb_segs > segments_max) {
      rte_pktmbuf_free(out);
      return drop_one(mbuf);
    }
    request_checksums(packet, *out);
    std::memcpy(rte_pktmbuf_mtod(out, void*), packet.data,
                std::min<size_t>(packet.length, out->data_len));
    rte_pktmbuf_free(&mbuf);
    return Prepared::kReady;
  }
  if (!attach_pieces(packet, mbuf)) return Prepared::kNoBuffer;
  request_checksums(packet, mbuf);
  out = &mbuf;
  return Prepared::kReady;
}

Queue::Prepared Queue::drop_one(rte_mbuf& mbuf) {
  rte_pktmbuf_free(&mbuf);
  ++counters_.tx_dropped;
  return Prepared::kDropped;
}

void Queue::request_checksums(PacketBuf& packet, rte_mbuf& mbuf) {
  if (!packet.wants_checksums || setup_.is_tx_trusted) return;
  mbuf.l2_len = kEthernetHeaderBytes;
  mbuf.l3_len = packet.l3_bytes;
  mbuf.l4_len = packet.l4_bytes;
  mbuf.ol_flags |= is_ipv4(packet) ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
  if (!setup_.has_ip_checksum) {
    complete_ip_checksum(packet);
  } else if (is_ipv4(packet)) {
    mbuf.ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
  }
  if (is_ipv4(packet) ? setup_.has_tcp_checksum : setup_.has_ipv6_tcp_checksum) {
    mbuf.ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM;
    request_tso(packet, mbuf);
    return;
  }
  complete_tcp_checksum(packet,
                        [this](const BufRef& piece) { return memory_.regions().bytes_of(piece); });
  ++counters_.software_checksums;
}

void Queue::request_tso(PacketBuf& packet, rte_mbuf& mbuf) {
  if (!packet.is_tso()) return;
  LYRE_CHECK(setup_.capabilities.tso_bytes_max > 0);  // the worker asks only ports that support TSO
  mbuf.ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
  mbuf.tso_segsz = packet.tso_bytes;
  // DPDK requires the pseudo-header's sum without the length, which differs between the segments.
  uint8_t* field = packet.data + kEthernetHeaderBytes + packet.l3_bytes + kTcpChecksumAt;
  const uint32_t length = mbuf.pkt_len - kEthernetHeaderBytes - packet.l3_bytes;
  ChecksumSum sum;
  sum.add({field, sizeof(uint16_t)});
  sum.add_u16(static_cast<uint16_t>(~length));
  const uint16_t without_length = sum.fold();
  std::memcpy(field, &without_length, sizeof(without_length));
}

/// Segments that the packet would take; more than any port supports when the port cannot read one
/// of its pieces.
uint32_t Queue::segments_needed(const PacketBuf& packet) const {
  RegionTable& regions = memory_.regions();
  uint32_t count = 1;
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    const BufRef& piece = packet.pieces[i];
    if (!setup_.quirks->is_virtual && !regions.is_readable_by_ports(piece.region)) {
      return UINT32_MAX;
    }
    for (uint64_t at = 0; at < piece.length; ++count) {
      at += std::min<uint64_t>(regions.run_at(piece.region, piece.offset + at).bytes,
                               setup_.quirks->segment_bytes_max);
    }
  }
  return count;
}

/// Returns false, with `head` as a single segment again, when there is no buffer for a piece.
bool Queue::attach_pieces(const PacketBuf& packet, rte_mbuf& head) {
  RegionTable& regions = memory_.regions();
  rte_mbuf* last = &head;
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    const BufRef& piece = packet.pieces[i];
    const uint8_t* base = regions.bytes_of(piece).data();
    rte_mbuf_ext_shared_info* shared = regions.shared_info(piece.region);
    for (uint64_t at = 0; at < piece.length;) {
      const RegionTable::Run run = regions.run_at(piece.region, piece.offset + at);
      const auto bytes = static_cast<uint16_t>(
          std::min({piece.length - at, run.bytes, uint64_t{setup_.quirks->segment_bytes_max}}));
      if (is_pushed(*setup_.quirks, head, bytes)) {
        append_bytes(head, base + at, bytes);
        at += bytes;
        continue;
      }
      rte_mbuf* segment = rte_pktmbuf_alloc(memory_.piece_mempool());
      if (segment == nullptr) {
        rte_pktmbuf_free(head.next);
        head.next = nullptr;
        head.nb_segs = 1;
        head.pkt_len = head.data_len = static_cast<uint16_t>(packet.length);
        return false;
      }
      rte_mbuf_ext_refcnt_update(shared, 1);
      rte_pktmbuf_attach_extbuf(segment, const_cast<uint8_t*>(base + at), run.iova, bytes, shared);
      segment->data_len = bytes;
      last->next = segment;
      last = segment;
      ++head.nb_segs;
      head.pkt_len += bytes;
      at += bytes;
    }
  }
  counters_.tx_linearised_bytes += head.data_len - packet.length;
  return true;
}

/// Copies the whole packet into as few buffers as hold it: one for any frame of the MTU.
rte_mbuf* Queue::copy_out(const PacketBuf& packet) {
  rte_mbuf* head = rte_pktmbuf_alloc(memory_.copy_mempool());
  if (head == nullptr) return nullptr;
  rte_mbuf* last = head;
  const auto room = [&] {
    return std::min<uint32_t>(rte_pktmbuf_tailroom(last),
                              setup_.quirks->segment_bytes_max - last->data_len);
  };
  const auto append = [&](std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      if (room() == 0) {
        rte_mbuf* more = rte_pktmbuf_alloc(memory_.copy_mempool());
        if (more == nullptr) return false;
        last->next = more;
        last = more;
        ++head->nb_segs;
      }
      const auto count = static_cast<uint16_t>(std::min<size_t>(bytes.size(), room()));
      std::memcpy(rte_pktmbuf_mtod_offset(last, uint8_t*, last->data_len), bytes.data(), count);
      last->data_len = static_cast<uint16_t>(last->data_len + count);
      head->pkt_len += count;
      bytes = bytes.subspan(count);
    }
    return true;
  };
  bool is_whole = append(packet.bytes());
  for (uint32_t i = 0; is_whole && i < packet.piece_count; ++i) {
    is_whole = append(memory_.regions().bytes_of(packet.pieces[i]));
  }
  if (!is_whole) {
    rte_pktmbuf_free(head);
    return nullptr;
  }
  counters_.tx_linearised_bytes += head->pkt_len;
  return head;
}

void Queue::reclaim() {
  if (pending_count_ > 0) {
    flush_pending();  // none is pending in a queue that is not running
    // While the link is down the driver takes nothing, and waiting packets must not hold client
    // memory.
    if (pending_count_ > 0 && !is_link_up()) drop_pending();
  }
  if (setup_.quirks->is_virtual) return;
  if (is_running_) ask_to_free();
  note_freed();
}

void Queue::ask_to_free() {
  switch (setup_.quirks->frees) {
    case Frees::kOnRequest:
      if (can_reclaim_) {
        const int rc = rte_eth_tx_done_cleanup(setup_.port_id, setup_.queue_id, 0);
        can_reclaim_ = rc != -ENOTSUP;
      }
      if (!can_reclaim_) rte_eth_tx_burst(setup_.port_id, setup_.queue_id, nullptr, 0);
      return;
    case Frees::kOnStatus:
      rte_eth_tx_descriptor_status(setup_.port_id, setup_.queue_id, 0);
      return;
    case Frees::kWhenSending:
      return;
  }
}

/// Relaxed: a lone flag.
bool Queue::is_link_up() const {
  if (!is_running_) return false;
  if (setup_.is_nic_up != nullptr) return setup_.is_nic_up->load(std::memory_order_relaxed);
  // Drivers over a kernel interface always report that the link is up.
  if (!setup_.interface.empty()) {
    return is_interface_running(setup_.interface, *setup_.interface_socket);
  }
  rte_eth_link link = {};
  return rte_eth_link_get_nowait(setup_.port_id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace lyre::io::dpdk
