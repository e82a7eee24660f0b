#include "nccl_adapter/comm/receivers.h"

#include <algorithm>

#include "nccl_adapter/comm/send_comm.h"

namespace lyre::nccl_adapter {

// A comm that has failed meanwhile, too: its user gets the error and does not wait for ever.
RecvComm* ListenComm::take() {
  if (arrivals_.empty()) return nullptr;
  RecvComm* arrival = arrivals_.front();
  arrivals_.pop_front();
  return arrival;
}

ListenComm* Receivers::listen(const Nonce& nonce) {
  auto& slot = listen_comms_[nonce];
  slot = std::make_unique<ListenComm>(nonce);
  return slot.get();
}

Decision Receivers::on_hello(const Hello& hello, const std::string& address, Stream* stream,
                             std::span<const uint8_t> welcome) {
  if (hello.stream_index == kRedialRequest) return redial(hello);
  const auto found = comms_.find(hello.comm_id);
  RecvComm* comm = found != comms_.end() ? found->second : nullptr;
  if (comm == nullptr) {
    const Decision decision = admit(hello, address, &comm);
    if (comm == nullptr) return decision;
  }
  // A peer whose comm was closed here; not counted as a foreign connection.
  if (comm->has_failed()) return Decision::late(AnswerCode::kUnknown, "that comm has failed there");
  if (comm->join(hello, stream, welcome) != AnswerCode::kWelcome) {
    return Decision::foreign(AnswerCode::kBadStream, "that stream exists already, or is invalid");
  }
  return Decision{};
}

Decision Receivers::redial(const Hello& hello) {
  SendComm* sender = owner_->find_sender(hello.comm_id);
  // A stranger may ask for any comm.
  if (sender == nullptr) return Decision::foreign(AnswerCode::kUnknown, "that comm is not here");
  sender->redial_all();
  return Decision::late(AnswerCode::kRedialing, "its streams are dialled again");
}

Decision Receivers::admit(const Hello& hello, const std::string& address, RecvComm** out) {
  const auto departed = departed_.find(hello.comm_id);
  if (departed != departed_.end()) {
    departed->second.is_told = true;
    if (!departed->second.was_in_order) {
      return Decision::late(AnswerCode::kUnknown, "it gave that comm up");
    }
    return Decision::late(AnswerCode::kDeparted, "it closed that comm", departed->second.placed);
  }
  const auto it = listen_comms_.find(hello.nonce);
  if (it == listen_comms_.end()) {
    return Decision::foreign(AnswerCode::kUnknown, "no listen comm has that handle");
  }
  if (hello.stream_count == 0 || hello.stream_count > kStreamsMax ||
      hello.stream_index >= hello.stream_count) {
    return Decision::foreign(AnswerCode::kBadStream, "stream index or count are invalid");
  }
  if (it->second->is_full()) {
    return Decision::foreign(AnswerCode::kBusy, "too many connections wait for accept");
  }
  auto comm = std::make_unique<RecvComm>(environment_, hello, address);
  *out = comms_[hello.comm_id] = comm.get();
  owner_->adopt(std::move(comm));
  it->second->add(*out);
  return Decision{};
}

void Receivers::on_close(Comm* comm) {
  const auto it = comms_.find(comm->id());
  if (it == comms_.end() || it->second != comm) return;
  RecvComm& receiver = *it->second;
  const Goodbye& goodbye = receiver.goodbye();
  const bool was_in_order = goodbye.is_in_order() && !receiver.has_failed();
  const bool is_told = !was_in_order || goodbye.is_peer_gone() || goodbye.is_acknowledged();
  departed_[comm->id()] = {was_in_order, receiver.placed(), is_told};
  comms_.erase(it);
  departed_order_.push_back(comm->id());
  if (departed_order_.size() <= kDepartedMax) return;
  departed_.erase(departed_order_.front());
  departed_order_.pop_front();
}

bool Receivers::is_any_untold() const {
  return std::any_of(departed_.begin(), departed_.end(),
                     [](const auto& entry) { return !entry.second.is_told; });
}

}  // namespace lyre::nccl_adapter
