#include "stack/tcp/receive_window.h"

#include <algorithm>

namespace lyre::tcp {

namespace {

constexpr uint32_t kRatioMemoryBytes = 1u << 20;  ///< charge after which old packets count half
constexpr uint32_t kFieldMax = 65535;
/// Round trips of data that the buffer holds. Two are enough for a sender in slow start (it
/// doubles); the others allow for an application that releases packets one or two round trips late.
constexpr uint32_t kRoundsBuffered = 4;
constexpr uint32_t kReadBytesMax = 1u << 30;
/// The timestamp clock has a resolution of 1 ms: a shorter RTT cannot be measured.
constexpr Nanos kReceiveRttMin = millis(1);
/// The duration of a round on a path whose RTT is below that resolution. Hardly any of it is the
/// path; the rest allows for an application that waits for its core. kRoundsBuffered of them make
/// one tick.
constexpr uint64_t kShortPathRoundNs = 250'000;
/// The consumption on such a path is measured over several time slices of the core. Rounds that
/// take longer are not the effect of the windows of a short path.
constexpr Nanos kShortPathSpan = millis(10);
/// The longest RTT of such a path: in one tick it has the two rounds that a sender needs. Echoes
/// return within one tick from paths of up to 1 ms, so the tick alone does not tell them apart.
constexpr Nanos kShortPathRttMax = micros(500);
constexpr uint32_t kEchoTicksMax = 60'000;

/// Two full-sized segments, or one, as soon as there is room for them. Small segments that arrived
/// must not reduce the window below that, because they may be small due to that window.
uint32_t promised_bytes(const Connection& c, uint32_t charge_bytes) {
  const uint32_t slot = c.config.slot_bytes;
  if (charge_bytes >= 2 * slot) return 2u * c.config.mss_bytes;
  return charge_bytes >= slot ? c.config.mss_bytes : 0u;
}

/// The payload that fits into `charge` bytes of buffer, by the recent ratio of payload to charge.
uint32_t payload_for(const Connection& c, uint32_t charge_bytes) {
  const uint64_t payload = std::min(c.rcv.payload_sum_bytes, c.rcv.charge_sum_bytes);
  const uint64_t by_ratio = charge_bytes * payload / std::max(c.rcv.charge_sum_bytes, 1u);
  const uint64_t window = std::max<uint64_t>(by_ratio, promised_bytes(c, charge_bytes));
  return static_cast<uint32_t>(std::min<uint64_t>(window, kFieldMax << c.rcv.scale));
}

uint32_t free_charge_bytes(const Connection& c) {
  const uint32_t buffer = c.rcv.buffer_bytes;
  return buffer > c.rcv.charged_bytes ? buffer - c.rcv.charged_bytes : 0;
}

/// RFC 9293 3.8.6.2.2: the smallest step by which the window opens.
uint32_t least_step_bytes(const Connection& c) {
  return std::min<uint32_t>(payload_for(c, c.rcv.buffer_bytes) / 2, c.config.mss_bytes);
}

/// The window field that advertises RCV.NXT + RCV.WND in a segment that acknowledges `ack`. Rounded
/// up: truncation would move the edge left (RFC 9293 3.8.6: do not shrink). Zero while text in that
/// window finds no room, as Linux does without memory: otherwise its sender sees nothing but
/// retransmissions without success, and gives up a peer that lives. The edge stays: what finds room
/// is accepted. Once the window was told open again (release_charge()), it stays so until text is
/// refused again.
uint16_t field_for_edge(ReceiveState& rcv, SeqNum ack, uint8_t scale) {
  if (rcv.was_refused) return 0;
  const uint32_t unit = 1u << scale;
  const uint32_t field = std::min((rcv.edge.since(ack) + unit - 1) >> scale, kFieldMax);
  rcv.edge = latest(rcv.edge, ack + (field << scale));
  return static_cast<uint16_t>(field);
}

/// `echo_age`: in ticks of the timestamp clock. The minimum RTT has a finer resolution, but a queue
/// raises it after RttEstimator::kMinWindow, so the result is kept.
void note_short_path(Connection& c, Nanos echo_age) {
  const bool is_short = c.rtt.rtt_min > nanos(0) && c.rtt.rtt_min < kShortPathRttMax;
  if (is_short && echo_age < kReceiveRttMin) c.rcv.saw_short_round = true;
}

void note_turn_of_window(Connection& c) {
  c.rcv.is_told_closed = !c.rcv.is_told_closed;
  c.changes.add(c.rcv.is_told_closed ? Change::kReceiveWindowClosed : Change::kReceiveWindowOpen);
}

}  // namespace

uint32_t workable_buffer_bytes(const ConnectionConfig& config, uint32_t wanted_bytes) {
  constexpr uint32_t kSlotsMin = 4;
  return std::max(wanted_bytes, kSlotsMin * config.slot_bytes);
}

uint8_t window_scale_for(uint32_t receive_buffer_bytes) {
  uint8_t scale = 0;
  while (scale < kWindowScaleMax && (receive_buffer_bytes >> scale) > kFieldMax) ++scale;
  return scale;
}

uint32_t window_on_offer(const Connection& c) { return payload_for(c, free_charge_bytes(c)); }

uint16_t advertise_window(Connection& c, bool is_syn) {
  ReceiveState& rcv = c.rcv;
  const uint8_t scale = is_syn ? 0 : rcv.scale;  // RFC 7323 2.2: never scaled in a SYN
  // Without new data to acknowledge the edge does not move: when the application frees enough
  // buffer, is_window_update_due() requests an ACK.
  if (is_syn || rcv.ack_now || rcv.acked != rcv.nxt) {
    const uint32_t offer = std::min(window_on_offer(c), kFieldMax << scale);
    const SeqNum right = rcv.nxt + offer;
    if (right.after(rcv.edge) && right.since(rcv.edge) >= least_step_bytes(c)) rcv.edge = right;
  }
  const uint16_t field = field_for_edge(rcv, rcv.nxt, scale);
  if ((field == 0) != rcv.is_told_closed) note_turn_of_window(c);
  return field;
}

uint16_t window_from(Connection& c, SeqNum ack) { return field_for_edge(c.rcv, ack, c.rcv.scale); }

bool is_window_update_due(const Connection& c) {
  const uint32_t known = c.rcv.edge.since(c.rcv.nxt);
  // Payload never exceeds its charge, so most calls return here and avoid the division.
  if (known > free_charge_bytes(c) / 2 && known >= 2u * c.config.mss_bytes) return false;
  const uint32_t offer = window_on_offer(c);
  if (offer <= known) return false;
  const uint32_t gain = offer - known;
  const uint32_t step = std::min(2u * c.config.mss_bytes, payload_for(c, c.rcv.buffer_bytes) / 2);
  // As long as the peer has a large window, ordinary ACKs carry the update.
  return gain >= step && gain >= known;
}

void note_receive_round(const Core& core, Connection& c, const SegmentIn& segment, Nanos now) {
  ReceiveState& rcv = c.rcv;
  if (c.has_timestamps && segment.options.has_timestamps) {
    const uint32_t ticks = timestamp_at(c, now) - segment.options.ts_echo;
    if (ticks > kEchoTicksMax) return;  // not an echo of a timestamp of ours
    const Nanos sample = millis(ticks);
    if (was_before_pause(core, now - sample)) return;
    note_short_path(c, sample);
    rcv.rtt = rcv.rtt.value == 0 ? sample : rcv.rtt + nanos((sample - rcv.rtt).value / 8);
    return;
  }
  const bool is_first = rcv.window_round_at.value == 0;
  if (!is_first && rcv.nxt.before(rcv.window_round_end)) return;
  const Nanos sample = earlier(now - rcv.window_round_at, RttEstimator::kMax);
  if (!is_first && (rcv.rtt.value == 0 || sample < rcv.rtt)) rcv.rtt = sample;
  rcv.window_round_end = rcv.edge;
  rcv.window_round_at = now;
}

void tune_receive_buffer(Connection& c, uint32_t released_bytes, Nanos now) {
  ReceiveState& rcv = c.rcv;
  rcv.round_read_bytes += std::min(released_bytes, kReadBytesMax - rcv.round_read_bytes);
  const Nanos rtt = later(rcv.rtt.value > 0 ? rcv.rtt : c.rtt.srtt, kReceiveRttMin);
  // Where the RTT was well below the clock's resolution, a longer one is queueing delay that the
  // window itself causes. A window that grew with it would grow without end.
  const bool is_short = rcv.saw_short_round && rtt < kShortPathSpan;
  const Nanos elapsed = now - rcv.round_at;
  if (elapsed < (is_short ? kShortPathSpan : rtt)) return;
  uint64_t read = rcv.round_read_bytes;
  if (is_short) read = read * kShortPathRoundNs / static_cast<uint64_t>(elapsed.value);
  const uint64_t wanted = std::min<uint64_t>(kRoundsBuffered * read, c.config.receive_buffer_bytes);
  rcv.buffer_bytes = std::max(rcv.buffer_bytes, static_cast<uint32_t>(wanted));
  rcv.round_read_bytes = 0;
  rcv.round_at = now;
}

void note_payload_ratio(Connection& c, uint32_t payload_bytes, uint32_t charge_bytes) {
  c.rcv.payload_sum_bytes += payload_bytes;
  c.rcv.charge_sum_bytes += charge_bytes;
  if (c.rcv.charge_sum_bytes > kRatioMemoryBytes) {
    c.rcv.payload_sum_bytes /= 2;
    c.rcv.charge_sum_bytes /= 2;
  }
}

}  // namespace lyre::tcp
