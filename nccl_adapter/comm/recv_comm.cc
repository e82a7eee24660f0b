#include "nccl_adapter/comm/recv_comm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/address.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

RecvComm::RecvComm(Environment* environment, const Hello& hello, std::string address)
    : Comm(environment, hello.comm_id, Peer{hello.host, hello.pid, std::move(address)},
           size_t{hello.stream_index} + 1),
      queue_(this),
      streams_max_(hello.stream_count) {}

AnswerCode RecvComm::join(const Hello& hello, Stream* stream, std::span<const uint8_t> answer) {
  if (hello.stream_count != streams_max_ || hello.stream_index >= streams_max_) {
    return AnswerCode::kBadStream;
  }
  lanes_.grow(size_t{hello.stream_index} + 1);
  Lane& lane = lanes_[hello.stream_index];
  if (hello.incarnation <= lane.incarnation) return AnswerCode::kBadStream;
  stream->limit_silence(silence_ms(environment()->settings()));
  // Unread bytes of the replaced stream are sent again.
  lane.path_text = "from " + to_string(stream->remote());
  lane.rail_text = lane.path_text.substr(0, lane.path_text.rfind(':'));
  sender_ = stream->remote();
  sender_.port = hello.listen_port;
  own_ = stream->local();
  std::copy(std::begin(own_.address), std::end(own_.address), lane.local_address.begin());
  lane.version = common_version(hello);
  lane.attach(std::make_unique<Stream>(std::move(*stream)), hello.incarnation,
              environment()->now_ns());
  peer_watch_.note_attached(environment()->now_ns());
  // A grant is the first frame on every stream: the sender starts from this state.
  if (lane.transport->send_small(answer) == Io::kFailed) return AnswerCode::kWelcome;
  tell(lane);
  pump();
  if (goodbye_.is_begun() && lane.is_up()) goodbye_.say(lane, last_words());
  return AnswerCode::kWelcome;
}

void RecvComm::on_detached() {
  request_.reset();
  Comm::on_detached();
}

void RecvComm::on_attached(int64_t now_ns) {
  Comm::on_attached(now_ns);
  if (has_failed() || goodbye_.is_begun() || peer_watch_.has_said_bye() || sender_.port == 0)
    return;
  const Hello hello{.stream_index = kRedialRequest,
                    .stream_count = streams_max_,
                    .pid = environment()->pid(),
                    .comm_id = id(),
                    .host = environment()->host()};
  own_.port = 0;
  request_ =
      std::make_unique<Dial>(own_, sender_, hello, silence_ms(environment()->settings()), this);
  requested_ns_ = now_ns;
  advance_request(now_ns);
}

// Asked once: where that does not get through, the sender's own timers remain.
void RecvComm::advance_request(int64_t now_ns) {
  if (request_ == nullptr) return;
  const Dial::State state =
      request_->advance(environment()->context(), now_ns, requested_ns_ + kDialNsMax);
  if (state != Dial::State::kPending) request_.reset();
}

Request* RecvComm::post_request(void* data, uint64_t bytes) {
  Request* request = queue_.post(data, bytes);
  if (queue_.refused()) refuse_large_message();
  peer_watch_.note_unplaced(queue_.has_unplaced());
  return request;
}

bool RecvComm::take(Lane& lane, std::span<const uint8_t> bytes) {
  heard_queue_pair_ = lane.is_for_queue_pairs ? &lane : nullptr;
  if (!lane.is_for_queue_pairs) heard_lane_ = lane.index;
  ReceiveQueue::Verdict verdict = queue_.take(&lane.reader, &bytes);
  while (verdict == ReceiveQueue::Verdict::kOther || verdict == ReceiveQueue::Verdict::kBye) {
    if (!lane.has_read_right()) break;                           // judged below
    const bool is_bye = verdict == ReceiveQueue::Verdict::kBye;  // pump_out() follows it
    if (is_bye) peer_watch_.note_bye();
    if (is_bye || queue_pairs_.on_frame(lane, false)) {
      verdict = queue_.take(&lane.reader, &bytes);
    } else {
      verdict = ReceiveQueue::Verdict::kBroken;
    }
  }
  if (verdict != ReceiveQueue::Verdict::kMore && !lane.has_read_right()) {
    on_broken(lane, Io::kFailed);
    return false;
  }
  if (!on_verdict(verdict)) return false;
  lane.transport->count_copied(queue_.take_copied_bytes());
  peer_watch_.note_unplaced(queue_.has_unplaced());
  return true;
}

bool RecvComm::on_verdict(ReceiveQueue::Verdict verdict) {
  switch (verdict) {
    case ReceiveQueue::Verdict::kMore:
      return true;
    case ReceiveQueue::Verdict::kTooLarge:
      refuse_large_message();
      return false;
    case ReceiveQueue::Verdict::kRevoked:  // take() has ended the lane
      return false;
    case ReceiveQueue::Verdict::kOther:  // take() has seen to these
    case ReceiveQueue::Verdict::kBye:
    case ReceiveQueue::Verdict::kBroken:
      fail(Result::kRemoteError, "the peer broke the protocol");
      return false;
  }
  return false;
}

// What the sender sent before its bye is placed, also when that takes until NCCL posts a receive.
void RecvComm::follow_bye() {
  const std::optional<uint64_t> ends_after = queue_.ends_after();
  if (!ends_after || has_failed()) return;
  if (queue_.placed() >= *ends_after) return on_bye();
  if (lanes_.is_any_up() || queue_.has_all_before(*ends_after)) return;
  fail(Result::kRemoteError,
       "the peer closed its end, and its last messages were lost with their connection");
}

void RecvComm::refuse_large_message() {
  const ReceiveQueue::Refused& refused = *queue_.refused();
  const std::string what = "message " + std::to_string(refused.message) + " has " +
                           std::to_string(refused.message_bytes) +
                           " bytes, the receive posted for it " +
                           std::to_string(refused.posted_bytes);
  std::vector<uint8_t> frame(kFrameHeaderBytes + what.size());
  encode({.type = FrameType::kFail,
          .bytes = static_cast<uint32_t>(what.size()),
          .message = refused.message},
         std::span<uint8_t, kFrameHeaderBytes>(frame.data(), kFrameHeaderBytes));
  std::copy(what.begin(), what.end(), frame.begin() + kFrameHeaderBytes);
  // The sessions end in order so that the peer reads why.
  for (const auto& lane : lanes_) {
    if (!lane->is_up() || lane->transport->send_small(frame) != Io::kOk) continue;
    if (!lane->transport->is_blocked()) lane->close();
  }
  fail(Result::kInvalidUsage, what);
}

Lane* RecvComm::choose_lane() {
  const bool has_queue_pair =
      heard_queue_pair_ != nullptr && QueuePairs::carries(*heard_queue_pair_);
  if (has_queue_pair) return heard_queue_pair_;
  Lane* stalled = nullptr;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[(heard_lane_ + i) % lanes_.size()];
    if (!lane.is_up()) continue;
    if (!lane.is_stalled(environment()->now_ns())) return &lane;
    stalled = &lane;
  }
  return stalled;
}

// Receives are exposed before they are granted: a sender that may send does not wait for more.
void RecvComm::tell(Lane& lane) {
  std::array<uint8_t, (kRequestsPerComm + 1) * kFrameHeaderBytes> frames;
  for (Lane* other : queue_pairs_.lanes()) {
    if (other == &lane) continue;
    const size_t bytes = queue_pairs_.expose(*other, queue_.requests(), frames);
    if (bytes == 0) continue;
    if (other->transport->send_small({frames.data(), bytes}) == Io::kFailed) on_send_failed(*other);
    if (has_failed()) return;
  }
  must_tell_ = !lane.is_up();  // its loss may have come over another lane
  if (must_tell_) return;
  size_t bytes = 0;
  if (lane.is_for_queue_pairs) bytes = queue_pairs_.expose(lane, queue_.requests(), frames);
  encode(queue_.make_grant(), std::span(frames).subspan(bytes).first<kFrameHeaderBytes>());
  bytes += kFrameHeaderBytes;
  if (lane.transport->send_small({frames.data(), bytes}) == Io::kFailed) on_send_failed(lane);
}

void RecvComm::pump_out() {
  follow_bye();
  if (has_failed()) return;
  advance_request(environment()->now_ns());
  for (const auto& lane : lanes_) {
    if (lane->is_up() && lane->transport->is_blocked() && lane->transport->flush() == Io::kFailed) {
      on_send_failed(*lane);
    }
    if (has_failed()) return;
  }
  queue_pairs_.flush();
  if (!must_tell_ && (!queue_.has_news() || may_grant_wait())) return;
  if (Lane* lane = choose_lane()) tell(*lane);
}

// NCCL does not wait for the grant of a small message, and its answer to that message should leave
// soon: one grant does for several messages.
bool RecvComm::may_grant_wait() const {
  const bool has_kept = heard_queue_pair_ == nullptr && heard_lane_ < lanes_.size() &&
                        lanes_[heard_lane_].version >= kCountedByeVersion;
  return has_kept && queue_.may_news_wait();
}

std::vector<uint8_t> RecvComm::last_words() const {
  std::vector<uint8_t> words(kFrameHeaderBytes);
  encode({.type = FrameType::kGrant, .message = queue_.placed(), .offset = queue_.posted()},
         std::span<uint8_t, kFrameHeaderBytes>(words.data(), kFrameHeaderBytes));
  return words;
}

void RecvComm::describe(nccl_abi::CommView* out) const {
  out->messages = queue_.placed();
  out->waits_for = nccl_abi::WaitsFor::kData;
}

void RecvComm::watch(int64_t now_ns) {
  advance_request(now_ns);
  if (!queue_.has_news()) news_ns_ = now_ns;
  if (now_ns - news_ns_ >= kGrantWaitNs) must_tell_ = true;
  tell_again(now_ns);
  if (requests().active() > 0) queue_pairs_.decline_again(now_ns);
  if (must_tell_) pump_out();
}

// A grant may hang on a stream whose path is dead while another one works.
void RecvComm::tell_again(int64_t now_ns) {
  if (lanes_.size() == 1 || now_ns - told_again_ns_ < kStallNs) return;
  for (const auto& lane : lanes_) {
    if (!lane->is_stalled(now_ns)) continue;
    told_again_ns_ = now_ns;
    must_tell_ = true;
  }
}

}  // namespace lyre::nccl_adapter
