#include "stack/io/dpdk/packet_port/queue.h"

#include <linux/sockios.h>
#include <rte_mbuf.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/base/check.h"
#include "stack/io/complete_checksums.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/mbuf_layout.h"
#include "stack/io/dpdk/packet_port/steering.h"

namespace lyre::io::dpdk {
namespace {

constexpr size_t kBeforePacketBytes = sizeof(VirtioHeader);

/// A verdict of the kernel. It has verified what it merged. A sender on this machine may have left
/// the checksum to an offload: then the packet was never on a wire.
ChecksumVerdict verdict_of(const VirtioHeader& header) {
  constexpr uint8_t kVerified = VirtioHeader::kDataValid | VirtioHeader::kNeedsChecksum;
  return (header.flags & kVerified) != 0 ? ChecksumVerdict::kGood : ChecksumVerdict::kUnknown;
}

bool is_congestion_reported(const PacketBuf& packet) {
  constexpr size_t kTcpFlagsAt = 13;
  constexpr uint8_t kCwr = 0x80;
  return (packet.data[kEthernetHeaderBytes + packet.l3_bytes + kTcpFlagsAt] & kCwr) != 0;
}

/// What sendmmsg() says of a packet that may be sent later: the interface's queue is full, or too
/// many bytes of this socket wait in it.
bool is_full(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

/// Whether packets of this socket wait in the interface's queue: only then has it room later.
bool has_waiting(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

}  // namespace

PacketQueue::PacketQueue(const Setup& setup, Memory& memory)
    : setup_(setup),
      memory_(memory),
      burst_max_(std::clamp<size_t>(setup.rx_slots_max / setup.packet_slots, 1, kBurstMax)) {
  LYRE_CHECK(setup_.packet_slots <= kPacketSlotsMax);
  for (size_t i = 0; i < kBurstMax; ++i) {
    rx_parts_[i][0] = {&rx_headers_[i], kBeforePacketBytes};
    rx_messages_[i].msg_hdr.msg_iov = rx_parts_[i].data();
    rx_messages_[i].msg_hdr.msg_iovlen = 1 + setup_.packet_slots;
    tx_parts_[i][0] = {&tx_headers_[i], kBeforePacketBytes};
    tx_messages_[i].msg_hdr.msg_iov = tx_parts_[i].data();
  }
  memory_.add_queue(*this);
}

PacketQueue::~PacketQueue() {
  suspend();
  memory_.remove_queue(*this);
}

void PacketQueue::start(int fd) {
  setup_.fd = fd;
  is_running_ = true;
}

void PacketQueue::suspend() {
  is_running_ = false;
  setup_.fd = -1;  // the port may close it, and its number be another one's
  for (auto& slots : window_) {
    for (PacketBuf*& slot : slots) {
      if (slot != nullptr) memory_.release({&slot, 1});
      slot = nullptr;
    }
  }
}

bool PacketQueue::is_link_up() const {
  return is_running_ && is_interface_running(setup_.interface, *setup_.interface_socket);
}

std::optional<uint32_t> PacketQueue::receive_queue_of(const FourTuple& tuple) const {
  return steered_queue(tuple, setup_.queue_count);
}

size_t PacketQueue::rx_burst(std::span<PacketBuf*> out) {
  if (!is_running_) return 0;
  const size_t wanted = fill_window(std::min(out.size(), burst_max_));
  if (wanted == 0) return 0;
  const int got = receive(static_cast<unsigned>(wanted));
  size_t filled = 0;
  for (int i = 0; i < got; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool is_whole = (rx_messages_[at].msg_hdr.msg_flags & MSG_TRUNC) == 0;
    const uint32_t bytes = rx_messages_[at].msg_len;
    if (is_whole && bytes > kBeforePacketBytes) {
      out[filled++] = take_out(at, bytes - static_cast<uint32_t>(kBeforePacketBytes));
    } else {
      ++counters_.rx_missed;
    }
  }
  return filled;
}

/// Returns how many packets came; -1: none. The kernel loses a packet whose header it cannot write
/// (UDP GSO before Linux 6.2), and those behind it wait.
int PacketQueue::receive(unsigned wanted) {
  for (size_t tries = 0; tries < kBurstMax; ++tries) {
    const int got = recvmmsg(setup_.fd, rx_messages_.data(), wanted, MSG_DONTWAIT, nullptr);
    if (got >= 0 || errno != EINVAL) return got;
    ++counters_.rx_missed;
  }
  return -1;
}

/// Gives the first packets of the window the slots that they lack. Returns how many have all.
size_t PacketQueue::fill_window(size_t wanted) {
  for (size_t i = 0; i < wanted; ++i) {
    for (size_t j = 0; j < setup_.packet_slots; ++j) {
      PacketBuf*& slot = window_[i][j];
      if (slot != nullptr) continue;
      slot = memory_.alloc_rx();
      if (slot == nullptr) return i;
      rx_parts_[i][1 + j] = {slot->data, slot->tailroom};
    }
  }
  return wanted;
}

/// Takes a packet of `bytes` out of the window. Not every driver says that it has merged one
/// (hv_netvsc gives no segment size): whether a large packet is one of TCP, its headers say.
PacketBuf* PacketQueue::take_out(size_t at, uint32_t bytes) {
  PacketBuf& packet = *window_[at][0];
  describe_slots(at, bytes);
  packet.port = setup_.index;
  packet.l4_checksum = setup_.is_rx_trusted ? ChecksumVerdict::kGood : verdict_of(rx_headers_[at]);
  packet.ip_checksum = setup_.is_rx_trusted ? ChecksumVerdict::kGood : ChecksumVerdict::kUnknown;
  ++counters_.rx_packets;
  counters_.rx_bytes += bytes;
  return &packet;
}

/// Takes the slots that `bytes` fill out of the window, as one chain.
void PacketQueue::describe_slots(size_t at, uint32_t bytes) {
  PacketBuf& first = *window_[at][0];
  PacketBuf* last = nullptr;
  uint32_t rest = bytes;
  uint16_t count = 0;
  for (size_t j = 0; rest > 0; ++j, ++count) {
    PacketBuf& slot = *std::exchange(window_[at][j], nullptr);
    slot.length = std::min<uint32_t>(rest, slot.tailroom);
    slot.tailroom = static_cast<uint16_t>(slot.tailroom - slot.length);
    rest -= slot.length;
    if (last != nullptr) last->next_slot = slot.slot;
    last = &slot;
  }
  first.rest_bytes = bytes - first.length;
  first.rest_slots = static_cast<uint16_t>(count - 1);
}

size_t PacketQueue::tx_burst(std::span<PacketBuf* const> in) {
  if (!is_running_) {
    release(in, false);
    return in.size();
  }
  size_t taken = 0;
  while (taken < in.size()) {
    const size_t sent = send_some(in.subspan(taken, std::min(in.size() - taken, kBurstMax)));
    if (sent == 0) {
      ++counters_.tx_full;
      break;
    }
    taken += sent;
  }
  return taken;
}

/// Sends or drops the first packets of `in`, at most one burst, and returns how many. 0: none can
/// be sent now.
size_t PacketQueue::send_some(std::span<PacketBuf* const> in) {
  size_t count = 0;
  while (count < in.size() && lay_out(*in[count], count)) ++count;
  if (count == 0) {
    release(in.first(1), false);
    return 1;
  }
  const auto send = [&] {
    return sendmmsg(setup_.fd, tx_messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  };
  int rc = send();
  // An error that a receive left at the socket is told once, and says nothing of this packet.
  if (rc < 0 && !is_full(errno)) rc = send();
  const int error = rc < 0 ? errno : 0;
  const size_t sent = rc < 0 ? 0 : static_cast<size_t>(rc);
  for (size_t i = sent; i < count; ++i) clear_ip_checksum(*in[i]);
  release(in.first(sent), true);
  refusals_ = error == ENOBUFS ? refusals_ + 1 : 0;
  // A filter or a limit of the interface may refuse this packet each time.
  const bool is_refused = error == ENOBUFS && (refusals_ > kRefusalsMax || !has_waiting(setup_.fd));
  if (error == 0 || (is_full(error) && !is_refused)) return sent;
  refusals_ = 0;
  // The interface is down or away, the packet is too large for it, or a client took its memory
  // away.
  release(in.first(1), false);
  return 1;
}

/// False: its region was removed.
bool PacketQueue::lay_out(PacketBuf& packet, size_t at) {
  size_t parts = 1;
  tx_parts_[at][parts++] = {packet.data, packet.length};
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    if (packet.pieces[i].length == 0) continue;
    const std::span<const uint8_t> bytes = memory_.regions().bytes_of(packet.pieces[i]);
    if (bytes.empty()) return false;
    tx_parts_[at][parts++] = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  }
  tx_messages_[at].msg_hdr.msg_iovlen = parts;
  tx_headers_[at] = {};
  if (!packet.wants_checksums) return true;
  complete_ip_checksum(packet);
  describe_offload(packet, tx_headers_[at]);
  return true;
}

void PacketQueue::describe_offload(const PacketBuf& packet, VirtioHeader& header) const {
  header.flags = VirtioHeader::kNeedsChecksum;
  header.checksum_start = static_cast<uint16_t>(kEthernetHeaderBytes + packet.l3_bytes);
  header.checksum_offset = kTcpChecksumAt;
  if (!packet.is_tso()) return;
  header.segmentation = is_ipv4(packet) ? VirtioHeader::kTcpOverIpv4 : VirtioHeader::kTcpOverIpv6;
  if (is_congestion_reported(packet)) header.segmentation |= VirtioHeader::kHasCwr;
  header.segment_bytes = packet.tso_bytes;
  header.headers_bytes = static_cast<uint16_t>(header.checksum_start + packet.l4_bytes);
}

void PacketQueue::release(std::span<PacketBuf* const> packets, bool is_sent) {
  if (packets.empty()) return;
  if (is_sent) {
    counters_.tx_packets += packets.size();
    for (const PacketBuf* packet : packets) counters_.tx_bytes += packet->total_bytes();
  } else {
    counters_.tx_dropped += packets.size();
  }
  memory_.release(packets);
}

}  // namespace lyre::io::dpdk
