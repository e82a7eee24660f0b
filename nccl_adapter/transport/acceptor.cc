#include "nccl_adapter/transport/acceptor.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "nccl_adapter/comm/recv_comm.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/rails.h"

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

std::unique_ptr<Acceptor> Acceptor::open(Instance* instance) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(instance));
  const int code = acceptor->listen();
  if (code == 0) return acceptor;
  if (!instance->note_daemon_error(code)) log_warn("cannot listen: %s", lyre_last_error());
  return nullptr;
}

int Acceptor::listen() {
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

Acceptor::~Acceptor() {
  on_detached();
  listen_comms_.clear();
}

void Acceptor::on_detached() {
  pending_.clear();
  if (listener_ != nullptr) lyre_close_listener(std::exchange(listener_, nullptr));
}

bool Acceptor::on_attached() {
  if (listen() == 0) return true;
  log_info("cannot listen on TCP port %u again yet: %s", port_, lyre_last_error());
  return false;
}

ListenComm* Acceptor::listen(const Nonce& nonce) {
  auto& slot = listen_comms_[nonce];
  slot = std::make_unique<ListenComm>(this, nonce);
  return slot.get();
}

void Acceptor::close(ListenComm* listen_comm) {
  while (RecvComm* arrival = listen_comm->take()) instance_->close(arrival);
  listen_comms_.erase(listen_comm->nonce());
}

void Acceptor::on_ready() {
  lyre_session* session = nullptr;
  while (lyre_accept(listener_, &session) == 0) {
    auto pending = std::make_unique<PendingConnection>();
    pending->acceptor = this;
    pending->stream = Stream(session);
    pending->address = to_string(pending->stream.remote());
    pending->deadline_ns =
        instance_->now_ns() + instance_->settings().handshake_timeout_ms * 1'000'000;
    if (pending_.size() >= kPendingConnectionsMax) {
      reject(pending_.front().get(), "too many connections wait without a hello");
    }
    pending_.push_back(std::move(pending));
    PendingConnection* arrived = pending_.back().get();
    arrived->stream.set_owner(arrived);
    on_readable(arrived);
  }
}

void Acceptor::expire() {
  if (pending_.empty()) return;
  const int64_t now_ns = instance_->now_ns();
  // In order of arrival, so the first one is the first to go. What it said meanwhile counts.
  while (!pending_.empty() && pending_.front()->deadline_ns <= now_ns) {
    PendingConnection* pending = pending_.front().get();
    const size_t count = pending_.size();
    on_readable(pending);
    if (pending_.size() == count) reject(pending, "it did not say in time what it wants");
  }
}

void Acceptor::on_readable(PendingConnection* pending) {
  std::span<const uint8_t> bytes;
  for (;;) {
    const Io io = pending->stream.peek(&bytes);
    if (io == Io::kAgain) return;
    if (io != Io::kOk) return reject(pending, "it left without a hello");
    pending->heard.insert(pending->heard.end(), bytes.begin(), bytes.end());
    pending->stream.consume(bytes.size());
    Hello hello;
    switch (read_hello(pending->heard, &hello)) {
      case HelloState::kMore:
        break;
      case HelloState::kComplete:
        return on_hello(pending, hello);
      case HelloState::kStranger:
        return reject(pending, "it does not speak this plugin's protocol");
      case HelloState::kVersion:
        return refuse(pending, AnswerCode::kVersion,
                      "protocol versions " + std::to_string(hello.version_min) + " to " +
                          std::to_string(hello.version_max) + " meet " +
                          std::to_string(kProtocolVersionMin) + " to " +
                          std::to_string(kProtocolVersionMax) +
                          ": install the same Lyre on both hosts");
    }
  }
}

void Acceptor::on_hello(PendingConnection* pending, const Hello& hello) {
  const std::vector<uint8_t> welcome = answer(AnswerCode::kWelcome, "");
  RecvComm* comm = instance_->find_receiver(hello.comm_id);
  if (comm == nullptr) {
    if (const Departed* departed = instance_->find_departed(hello.comm_id)) {
      return departed->was_in_order
                 ? turn_away(pending, AnswerCode::kDeparted, "it closed that comm",
                             departed->placed)
                 : turn_away(pending, AnswerCode::kUnknown, "it gave that comm up");
    }
    const auto it = listen_comms_.find(hello.nonce);
    if (it == listen_comms_.end()) {
      return refuse(pending, AnswerCode::kUnknown, "nobody listens under that handle (any more)");
    }
    if (hello.stream_count == 0 || hello.stream_count > kStreamsMax ||
        hello.stream_index >= hello.stream_count) {
      return refuse(pending, AnswerCode::kBadStream, "stream index or count are nonsense");
    }
    if (it->second->is_full()) {
      return refuse(pending, AnswerCode::kBusy, "too many connections wait for accept");
    }
    comm = instance_->add_receiver(hello, pending->address);
    it->second->add(comm);
  }
  if (comm->has_failed()) {
    return turn_away(pending, AnswerCode::kUnknown, "that comm has failed there");
  }
  if (comm->join(hello, &pending->stream, welcome) != AnswerCode::kWelcome) {
    return refuse(pending, AnswerCode::kBadStream, "that stream is there already, or never was");
  }
  forget(pending);
}

void Acceptor::refuse(PendingConnection* pending, AnswerCode code, const std::string& why) {
  note_stranger(*pending, why);
  dismiss(pending, answer(code, why));
}

void Acceptor::turn_away(PendingConnection* pending, AnswerCode code, const char* why,
                         uint64_t placed) {
  log_info("a stream from %s comes late: %s", pending->address.c_str(), why);
  dismiss(pending, answer(code, why, placed));
}

void Acceptor::dismiss(PendingConnection* pending, const std::vector<uint8_t>& words) {
  // A failure here is the session's, which ends anyway.
  pending->stream.send_small(words);
  pending->stream.close();
  forget(pending);
}

void Acceptor::note_stranger(const PendingConnection& pending, const std::string& why) {
  instance_->telemetry().count_stranger(pending.address);
  log_stranger(pending.address, why);
}

void Acceptor::reject(PendingConnection* pending, const char* why) {
  note_stranger(*pending, why);
  forget(pending);
}

void Acceptor::forget(PendingConnection* pending) {
  std::erase_if(pending_, [&](const auto& own) { return own.get() == pending; });
}

std::vector<uint8_t> Acceptor::answer(AnswerCode code, const std::string& text,
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
