#include "nccl_adapter/comm/goodbye.h"

#include <algorithm>

#include "nccl_adapter/protocol/frame.h"

namespace lyre::nccl_adapter {

void Goodbye::begin(const Words& words) {
  is_begun_ = true;
  is_abort_ = words.is_abort;
  is_data_under_way_ = words.is_data_under_way;
  has_last_words_ = !is_abort_ && !words.last.empty();
  bye_ = words.bye;
  for (const auto& lane : *lanes_) {
    lane->dial.reset();
    if (lane->is_up()) say(*lane, words.last);
  }
}

// Peers whose process makes no call acknowledge a bye alone after 40 ms, and NCCL closes its comms
// one after the other: a FIN follows it. Data that a broken stream lost may have to go over this
// one behind the bye, so there none does.
void Goodbye::say(Lane& lane, std::span<const uint8_t> last_words) {
  std::vector<uint8_t> words(last_words.begin(), last_words.end());
  words.resize(words.size() + kFrameHeaderBytes);
  encode(bye_, std::span<uint8_t, kFrameHeaderBytes>(words.data() + last_words.size(),
                                                     kFrameHeaderBytes));
  if (lane.transport->send_small(words) == Io::kFailed) {
    lane.drop();
  } else if (is_abort_) {
    lane.close();
  } else if (!is_data_under_way_ && !lane.transport->is_blocked()) {
    lane.transport->end_sending();
  }
}

bool Goodbye::is_done() const {
  if (!environment_->is_attached()) return true;
  return std::all_of(lanes_->begin(), lanes_->end(), [](const auto& lane) {
    if (!lane->is_up() || lane->transport->has_ended()) return true;
    const Io rest = lane->transport->flush();
    return rest == Io::kFailed || (rest == Io::kOk && lane->transport->unacked_bytes() == 0);
  });
}

bool Goodbye::is_acknowledged() const {
  return is_answered_ || std::any_of(lanes_->begin(), lanes_->end(), [this](const auto& lane) {
           return is_acknowledged_on(*lane);
         });
}

// Dials ended with begin(): no answer to one is due.
bool Goodbye::is_peer_gone() const {
  return peer_watch_->is_gone(
      {.is_any_up = lanes_->is_any_up(), .is_answer_due = false, .is_awaiting = false});
}

bool Goodbye::is_heard() const {
  return is_peer_gone() || (is_done() && (!has_last_words_ || is_acknowledged()));
}

bool Goodbye::is_acknowledged_on(Lane& lane) const {
  if (!environment_->is_attached() || !lane.is_up()) return false;
  if (lane.transport->has_ended()) return lane.transport->error() == 0;
  return lane.transport->flush() == Io::kOk && lane.transport->unacked_bytes() == 0;
}

// A stream over a dead path would retransmit for seconds a bye that another stream delivered. One
// whose bye did not find room is reset: the peer dials again and gets an answer, whereas a FIN
// alone would mean that this process ended. Data is acknowledged on the stream that carries it.
void Goodbye::finish() {
  const bool is_any_acknowledged = is_acknowledged();
  for (const auto& lane : *lanes_) {
    if (!lane->is_up()) continue;
    const bool is_unsent = lane->transport->is_blocked();
    const bool is_needless = is_any_acknowledged && !is_data_under_way_;
    if (is_unsent || (is_needless && !is_acknowledged_on(*lane))) {
      lane->drop();
    } else {
      lane->close();
    }
  }
}

}  // namespace lyre::nccl_adapter
