#include "nccl_adapter/core/reception.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "nccl_adapter/core/instance.h"
#include "nccl_adapter/core/log.h"
#include "nccl_adapter/core/rails.h"
#include "nccl_adapter/core/recv_comm.h"
#include "nccl_adapter/core/status.h"

namespace lyre::nccl_adapter {
namespace {

// A scanner must not fill the log either.
void log_stranger(const std::string& address, const std::string& why) {
  static std::atomic<uint64_t> count{0};
  const uint64_t index = count.fetch_add(1, std::memory_order_relaxed);
  if (index < kStrangerLinesMax) {
    log_warn("closed a connection from %s: %s", address.c_str(), why.c_str());
  } else if (index == kStrangerLinesMax) {
    log_warn("more strangers came; they are closed without a line from here on");
  }
}

}  // namespace

// Also one that has failed meanwhile: whoever accepts shall meet an error, not wait for ever.
RecvComm* ListenComm::take() {
  if (arrivals_.empty()) return nullptr;
  RecvComm* arrival = arrivals_.front();
  arrivals_.pop_front();
  return arrival;
}

std::unique_ptr<Reception> Reception::open(Instance* instance) {
  std::unique_ptr<Reception> reception(new Reception(instance));
  const int code = reception->listen();
  if (code == 0) return reception;
  if (!instance->note_daemon_error(code)) log_warn("cannot listen: %s", lyre_last_error());
  return nullptr;
}

int Reception::listen() {
  // All of the daemon's addresses: a peer may come over any rail.
  const lyre_addr local = make_addr(Address{}, port_);
  int code = lyre_listen(instance_->context(), &local, kListenBacklog, &listener_);
  lyre_addr bound{};
  if (code == 0) code = lyre_listener_addr(listener_, &bound);
  if (code == 0) {
    port_ = bound.port;
  } else if (listener_ != nullptr) {
    lyre_close_listener(std::exchange(listener_, nullptr));
  }
  return code;
}

Reception::~Reception() {
  on_detached();
  listen_comms_.clear();
}

void Reception::on_detached() {
  visitors_.clear();
  if (listener_ != nullptr) lyre_close_listener(std::exchange(listener_, nullptr));
}

bool Reception::on_attached() {
  if (listen() == 0) return true;
  log_info("cannot listen on TCP port %u again yet: %s", port_, lyre_last_error());
  return false;
}

ListenComm* Reception::listen(const Nonce& nonce) {
  auto& slot = listen_comms_[nonce];
  slot = std::make_unique<ListenComm>(this, nonce);
  return slot.get();
}

void Reception::close(ListenComm* listen_comm) {
  while (RecvComm* arrival = listen_comm->take()) instance_->close(arrival);
  listen_comms_.erase(listen_comm->nonce());
}

void Reception::on_ready() {
  lyre_session* session = nullptr;
  while (lyre_accept(listener_, &session) == 0) {
    auto visitor = std::make_unique<Visitor>();
    visitor->reception = this;
    visitor->stream = Stream(session);
    visitor->address = to_string(visitor->stream.remote());
    visitor->deadline_ns = now_ns() + instance_->settings().visitor_timeout_ms * 1'000'000;
    if (visitors_.size() >= kVisitorsMax) {
      show_out(visitors_.front().get(), "too many connections wait without a hello");
    }
    visitors_.push_back(std::move(visitor));
    Visitor* newcomer = visitors_.back().get();
    newcomer->stream.set_owner(newcomer);
    hear(newcomer);
  }
}

void Reception::expire() {
  if (visitors_.empty()) return;
  const int64_t now = now_ns();
  // In order of arrival, so the first one is the first to go. What it said meanwhile counts.
  while (!visitors_.empty() && visitors_.front()->deadline_ns <= now) {
    Visitor* visitor = visitors_.front().get();
    const size_t count = visitors_.size();
    hear(visitor);
    if (visitors_.size() == count) show_out(visitor, "it did not say in time what it wants");
  }
}

void Reception::hear(Visitor* visitor) {
  std::span<const uint8_t> bytes;
  for (;;) {
    const Io io = visitor->stream.peek(&bytes);
    if (io == Io::kAgain) return;
    if (io != Io::kOk) return show_out(visitor, "it left without a hello");
    visitor->heard.insert(visitor->heard.end(), bytes.begin(), bytes.end());
    visitor->stream.consume(bytes.size());
    Hello hello;
    switch (read_hello(visitor->heard, &hello)) {
      case HelloState::kMore:
        break;
      case HelloState::kComplete:
        return receive(visitor, hello);
      case HelloState::kStranger:
        return show_out(visitor, "it does not speak this plugin's protocol");
      case HelloState::kVersion:
        return refuse(visitor, AnswerCode::kVersion,
                      "protocol versions " + std::to_string(hello.version_min) + " to " +
                          std::to_string(hello.version_max) + " meet " +
                          std::to_string(kProtocolVersionMin) + " to " +
                          std::to_string(kProtocolVersionMax) +
                          ": install the same Lyre on both hosts");
    }
  }
}

void Reception::receive(Visitor* visitor, const Hello& hello) {
  const std::vector<uint8_t> welcome = answer(AnswerCode::kWelcome, "");
  RecvComm* comm = instance_->find_receiver(hello.comm_id);
  if (comm == nullptr) {
    if (const Departed* departed = instance_->find_departed(hello.comm_id)) {
      return departed->was_in_order
                 ? turn_away(visitor, AnswerCode::kDeparted, "it closed that comm",
                             departed->placed)
                 : turn_away(visitor, AnswerCode::kUnknown, "it gave that comm up");
    }
    const auto it = listen_comms_.find(hello.nonce);
    if (it == listen_comms_.end()) {
      return refuse(visitor, AnswerCode::kUnknown, "nobody listens under that handle (any more)");
    }
    if (hello.stream_count == 0 || hello.stream_count > kStreamsMax ||
        hello.stream_index >= hello.stream_count) {
      return refuse(visitor, AnswerCode::kBadStream, "stream index or count are nonsense");
    }
    if (it->second->is_full()) {
      return refuse(visitor, AnswerCode::kBusy, "too many connections wait for accept");
    }
    comm = instance_->add_receiver(hello, visitor->address);
    it->second->add(comm);
  }
  if (comm->has_failed()) {
    return turn_away(visitor, AnswerCode::kUnknown, "that comm has failed there");
  }
  if (comm->join(hello, &visitor->stream, welcome) != AnswerCode::kWelcome) {
    return refuse(visitor, AnswerCode::kBadStream, "that stream is there already, or never was");
  }
  forget(visitor);
}

void Reception::refuse(Visitor* visitor, AnswerCode code, const std::string& why) {
  note_stranger(*visitor, why);
  dismiss(visitor, answer(code, why));
}

void Reception::turn_away(Visitor* visitor, AnswerCode code, const char* why, uint64_t placed) {
  log_info("a stream from %s comes late: %s", visitor->address.c_str(), why);
  dismiss(visitor, answer(code, why, placed));
}

void Reception::dismiss(Visitor* visitor, const std::vector<uint8_t>& words) {
  // A failure here is the session's, which ends anyway.
  visitor->stream.send_small(words);
  visitor->stream.close();
  forget(visitor);
}

void Reception::note_stranger(const Visitor& visitor, const std::string& why) {
  instance_->telemetry().count_stranger(visitor.address);
  log_stranger(visitor.address, why);
}

void Reception::show_out(Visitor* visitor, const char* why) {
  note_stranger(*visitor, why);
  forget(visitor);
}

void Reception::forget(Visitor* visitor) {
  std::erase_if(visitors_, [&](const auto& own) { return own.get() == visitor; });
}

std::vector<uint8_t> Reception::answer(AnswerCode code, const std::string& text,
                                       uint64_t placed) const {
  Answer words{.code = code,
               .pid = instance_->pid(),
               .host = instance_->host(),
               .text = text,
               .placed = placed,
               .rails = {}};
  for (const lyre_port& port : instance_->ports()) {
    if (words.rails.size() < kRailsMax) words.rails.push_back(address_of(port));
  }
  std::vector<uint8_t> bytes(kAnswerBytes);
  encode(words, std::span<uint8_t, kAnswerBytes>(bytes.data(), kAnswerBytes));
  return bytes;
}

}  // namespace lyre::nccl_adapter
