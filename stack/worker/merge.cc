#include <algorithm>

#include "stack/worker/impl.h"

/// Segments of one connection that follow each other in one burst reach the engine as one: what
/// they cost it is then paid once a burst. Only text that is next in order is merged, and only
/// segments that are alike but for it: never across a change of flags, CE, timestamp or ACK.
namespace lyre::worker {

namespace {

constexpr uint8_t kPlain = wire::TcpFlags::kAck;
constexpr uint8_t kPushed = wire::TcpFlags::kAck | wire::TcpFlags::kPsh;

bool is_plain_text(const tcp::SegmentIn& segment) {
  return segment.payload_bytes > 0 && segment.options.sack_count == 0;
}

bool follows(const tcp::SegmentIn& train, const tcp::SegmentIn& next) {
  const bool is_alike = next.ack == train.ack && next.ecn == train.ecn &&
                        next.options.has_timestamps == train.options.has_timestamps &&
                        next.options.ts_value == train.options.ts_value &&
                        next.options.ts_echo == train.options.ts_echo;
  const bool has_flags = next.flags.bits == kPlain || next.flags.bits == kPushed;
  return is_alike && has_flags && is_plain_text(next) &&
         next.seq == train.seq + train.payload_bytes;
}

}  // namespace

Train* Worker::Impl::find_train(const FourTuple& tuple) {
  for (Train& train : trains) {
    if (train.tuple == tuple) return &train;
  }
  return nullptr;
}

/// True when the segment waits in a train for what may follow it.
bool Worker::Impl::try_begin_train(const Train& train) {
  const bool may_lead = config.merge_received && train.segment.flags.bits == kPlain &&
                        is_plain_text(train.segment) &&
                        engine.takes_merged(train.conn, train.segment.seq);
  if (!may_lead) return false;
  if (trains.full()) deliver_train(trains.begin());
  trains.push(train);
  if (!ip::can_be_model(train.headers)) trains.back().headers = {};
  return true;
}

/// From here on the packet is its payload: that is what gets lent.
void Worker::Impl::become_payload(io::PacketBuf& packet, std::span<const uint8_t> payload) {
  packet.data = const_cast<uint8_t*>(payload.data());
  packet.length = static_cast<uint32_t>(payload.size());
  packet.next_slot = io::PacketBuf::kNoSlot;
}

void Worker::Impl::append(Train& train, io::PacketBuf* packet, std::span<const uint8_t> payload) {
  become_payload(*packet, payload);
  train.segment.payload_bytes += packet->length;
  train.segment.charge_bytes += memory.rx_slot_bytes();
  ++train.segment.segment_count;
  train.last->next_slot = packet->slot;
  train.last = packet;
}

/// True when the segment became part of the train, which a PSH ends.
bool Worker::Impl::try_extend_train(Train& train, const tcp::SegmentIn& next, io::PacketBuf* packet,
                                    std::span<const uint8_t> payload) {
  if (!follows(train.segment, next)) return false;
  append(train, packet, payload);
  train.segment.window = next.window;
  train.segment.flags = next.flags;
  if (next.flags.bits == kPushed) deliver_train(&train);
  return true;
}

/// The fast twin of classify(), on_tcp() and try_extend_train(): by bytes, without parsing.
bool Worker::Impl::try_extend_unparsed(io::PacketBuf* packet) {
  for (Train& train : trains) {
    if (train.headers.empty()) continue;
    const SeqNum seq = train.segment.seq + train.segment.payload_bytes;
    std::span<const uint8_t> payload;
    if (!ip::is_alike(*packet, train.headers, seq, payload)) continue;
    append(train, packet, payload);
    return true;
  }
  return false;
}

void Worker::Impl::deliver_train(Train* train) {
  const Train done = *train;
  std::copy(train + 1, trains.end(), train);
  trains.pop_back();
  if (!on_segment(done.conn, done.segment)) release_chain(done.segment.payload.slot);
}

void Worker::Impl::deliver_trains() {
  while (!trains.empty()) deliver_train(trains.begin());
}

}  // namespace lyre::worker
