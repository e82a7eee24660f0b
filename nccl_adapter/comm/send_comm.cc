#include "nccl_adapter/comm/send_comm.h"

#include <algorithm>

#include "nccl_adapter/protocol/bytes.h"
#include "nccl_adapter/transport/address.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

namespace {

std::vector<Address> addresses_of(const Handle& handle) {
  std::vector<Address> addresses = {handle.address};
  for (const Address& other : handle.others) {
    if (!is_none(other)) addresses.push_back(other);
  }
  return addresses;
}

std::string describe_families(const Handle& handle, const lyre_port& port) {
  return "the address families differ: " + to_string(handle.address) + " there, " +
         to_string(address_of(port)) + " here (" + port.name +
         "); give one of the hosts an address of the other family, too";
}

}  // namespace

SendComm::SendComm(Environment* environment, const Nonce& id, size_t device, const Handle& handle)
    : Comm(environment, id,
           Peer{handle.host, handle.pid, to_string(make_addr(handle.address, handle.port))},
           environment->stream_count(device).add_connection()),
      queue_(this),
      handle_(handle),
      device_(device),
      count_(environment->stream_count(device)),
      wanted_(lanes_.size()),
      watched_ns_(environment->now_ns()) {
  const std::vector<lyre_port>& ports = environment->ports();
  const std::vector<Address> remotes = usable_addresses(ports, addresses_of(handle));
  if (remotes.empty()) {
    fail(Result::kInvalidUsage, describe_families(handle, ports[device]));
    return;
  }
  // That port's address of the other family where its first one cannot be reached from here.
  handle_.address = remotes.front();
  peer_.address = to_string(make_addr(handle_.address, handle_.port));
  pairs_.set(ports, rail_pairs(ports, device, remotes, told_by(handle, remotes)));
  for (const auto& lane : lanes_) set_home(*lane);
}

SendComm::~SendComm() { count_.remove_connection(); }

// Where every rail is to be used, lanes begin on different ones.
void SendComm::set_home(Lane& lane) const {
  lane.home_pair = environment()->settings().uses_all_rails ? pairs_.spread_home(lane.index) : 0;
  lane.pair = lane.attached_pair = lane.home_pair;
}

void SendComm::pump_out() {
  for (const auto& lane : lanes_) {
    if (lane->dial != nullptr) advance_dial(*lane, environment()->now_ns());
    if (has_failed()) return;
    if (lane->is_up() && lane->transport->is_blocked() && lane->transport->flush() == Io::kFailed) {
      on_send_failed(*lane);
    }
    if (has_failed()) return;
  }
  queue_pairs_.flush();
  Chunk chunk;
  while (queue_.next_chunk(carriers(), piece_bytes_max(), &chunk)) {
    Lane* lane = choose_lane(chunk);
    if (lane == nullptr) return;
    const Io io = send(*lane, chunk);
    if (io == Io::kFailed) on_send_failed(*lane);
    const bool goes_on = lane->is_for_queue_pairs || environment()->is_attached();
    if (io == Io::kFailed && goes_on && !has_failed()) continue;
    if (io != Io::kOk) return;
  }
}

// What a queue pair wrote may still reach the receiver's memory after the queue pair was lost here,
// also where only half of it could be posted. Before it is sent again the receiver has to destroy
// its end: it is told over the same lane, which keeps the order.
Io SendComm::send(Lane& lane, const Chunk& chunk) {
  if (queue_pairs_.say_lost(lane, chunk.written_over) == Io::kFailed) return Io::kFailed;
  const bool is_written = lane.is_for_queue_pairs && queue_pairs_.writes(lane, chunk);
  const Io io = lane.transport->send_chunk(chunk);
  if (io == Io::kOk || (io == Io::kFailed && is_written)) give(lane, chunk, is_written);
  return io;
}

void SendComm::give(Lane& lane, const Chunk& chunk, bool is_written) {
  while (!lane.sent.empty() && lane.sent.front().message < queue_.placed()) lane.sent.pop_front();
  SentChunk sent{chunk.header.message, chunk.header.offset, chunk.header.bytes, chunk.written_over};
  if (is_written) sent.written_over = {lane.index, lane.incarnation};
  lane.sent.push_back(sent);
  if (chunk.is_again) again_bytes_ += chunk.header.bytes;
  // A queue pair is destroyed with what is under way there.
  queue_.chunk_sent(chunk, !lane.is_for_queue_pairs);
  lane.transport->count_copied(queue_.take_copied_bytes());
  if (!lane.is_for_queue_pairs) last_lane_ = lane.index;
}

size_t SendComm::carriers() const {
  const size_t queue_pairs = queue_pairs_.carrying();
  return queue_pairs > 0 ? queue_pairs : std::max<size_t>(wanted_up(), 1);
}

// A message ends with its slowest piece: no piece shall keep a slow stream busy for long. The rate
// of a stream that is alone does not matter, for no other one has to wait for it.
uint64_t SendComm::piece_bytes_max() const {
  if (queue_pairs_.carrying() > 0 || count_.wanted() == 1) return kChunkBytesMax;
  uint64_t rate_bytes_per_s = 0;
  for (const auto& lane : lanes_) {
    rate_bytes_per_s = std::max(rate_bytes_per_s, lane->rate_bytes_per_s);
  }
  if (rate_bytes_per_s == 0) return kChunkBytesMax;
  const double bytes = static_cast<double>(rate_bytes_per_s) * kPieceNs / kNsPerSecond;
  return static_cast<uint64_t>(std::clamp(bytes, static_cast<double>(kZeroCopyBytesMin),
                                          static_cast<double>(kChunkBytesMax)));
}

// The emptiest one that has room. What is small follows what went before as long as that flows:
// spreading it would only spread the wake-ups.
Lane* SendComm::choose_lane(const Chunk& chunk) {
  // What is sent over TCP beside a queue pair only delays it: both share the NIC.
  if (queue_pairs_.carrying() > 0) return queue_pairs_.choose(chunk);
  if (environment()->settings().verbs == VerbsUse::kOnly) return nullptr;
  if (lanes_.size() == 1) {
    Lane& only = lanes_[0];
    const bool has_room =
        only.is_up() && !only.transport->is_blocked() &&
        only.transport->unacked_bytes() < only.room_bytes(chunk.header.bytes, true);
    return has_room ? &only : nullptr;
  }
  const bool is_alone = count_.wanted() == 1;
  Lane* best = nullptr;
  uint64_t best_unacked = UINT64_MAX;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[(last_lane_ + i) % lanes_.size()];
    if (!lane.is_up() || !is_wanted(lane) || lane.transport->is_blocked()) continue;
    const uint64_t unacked = lane.transport->unacked_bytes();
    if (unacked >= lane.room_bytes(chunk.header.bytes, is_alone)) continue;
    if (i == 0 && chunk.header.message_bytes <= kStripeBytesMin && unacked < kStripeBytesMin) {
      return &lane;
    }
    if (unacked < best_unacked) {
      best = &lane;
      best_unacked = unacked;
    }
  }
  return best;
}

bool SendComm::take(Lane& lane, std::span<const uint8_t> bytes) {
  FrameReader& reader = lane.reader.frames;
  while (!bytes.empty() && !has_failed()) {
    if (reader.state() == FrameReader::State::kHeader) {
      if (!reader.take_header(&bytes)) {
        if (reader.state() == FrameReader::State::kBroken) {
          if (!lane.has_read_right()) {
            on_broken(lane, Io::kFailed);
            return false;
          }
          fail(Result::kRemoteError, "the peer sent something that is no frame");
        }
        return !has_failed();
      }
      lane.reader.small_payload.clear();
    }
    const bool has_payload = has_small_payload(reader.header().type);
    if (has_payload && !lane.reader.take_small_payload(&bytes)) return true;
    if (!lane.has_read_right()) {
      on_broken(lane, Io::kFailed);
      return false;
    }
    on_frame(lane);
    reader.finish();
  }
  return !has_failed();
}

void SendComm::on_frame(Lane& lane) {
  const FrameHeader& header = lane.reader.frames.header();
  switch (header.type) {
    case FrameType::kGrant:
      if (queue_.on_grant(header.message, header.offset)) return;
      break;
    case FrameType::kPing:
      return;
    case FrameType::kBye:
      return on_bye();
    case FrameType::kFail:
      return on_fail_frame(lane);
    case FrameType::kDecline:
    case FrameType::kAccept:
    case FrameType::kOffer:
    case FrameType::kCredit:
    case FrameType::kPlace:
      if (queue_pairs_.on_frame(lane, true)) return;
      break;
    case FrameType::kData:
    case FrameType::kWritten:
      break;
  }
  fail(Result::kRemoteError, "the peer broke the protocol");
}

void SendComm::on_fail_frame(const Lane& lane) {
  const std::span<const uint8_t> text(lane.reader.small_payload);
  fail(Result::kRemoteError, "the peer gave up: " + get_text(text, 0, text.size()));
}

void SendComm::describe(nccl_abi::CommView* out) const {
  using nccl_abi::WaitsFor;
  out->is_sender = 1;
  out->messages = queue_.placed();
  out->again_bytes = again_bytes_;
  out->waits_for = queue_.waits_for_credit() ? WaitsFor::kCredit : WaitsFor::kPlacement;
}

}  // namespace lyre::nccl_adapter
