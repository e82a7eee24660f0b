#include "nccl_adapter/transport/acceptor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/rails.h"

namespace lyre::nccl_adapter {
namespace {

void log_stranger(const std::string& address, const std::string& why, uint64_t left_out) {
  std::string others;
  if (left_out > 0) others = " (and " + std::to_string(left_out) + " more since the last line)";
  log_warn("closed a connection from %s: %s%s", address.c_str(), why.c_str(), others.c_str());
}

Decision version_mismatch(const Hello& hello) {
  const std::string why =
      "protocol versions " + std::to_string(hello.version_min) + " to " +
      std::to_string(hello.version_max) + " meet " + std::to_string(kProtocolVersionMin) + " to " +
      std::to_string(kProtocolVersionMax) + ": install the same Lyre on both hosts";
  return Decision::foreign(AnswerCode::kVersion, why.c_str());
}

}  // namespace

std::unique_ptr<Acceptor> Acceptor::open(Environment* environment, HelloReceiver* receiver,
                                         Telemetry* telemetry, ForeignLines* lines) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(environment, receiver, telemetry, lines));
  const int code = acceptor->listen();
  if (code == 0) return acceptor;
  if (!environment->note_daemon_error(code)) log_warn("cannot listen: %s", lyre_last_error());
  return nullptr;
}

int Acceptor::listen() {
  // All of the daemon's addresses: a peer may come over any rail.
  const lyre_addr local = make_addr(Address{}, port_);
  int code = lyre_listen(environment_->context(), &local, kListenBacklog, &listener_);
  lyre_addr bound{};
  if (code == 0) code = lyre_listener_addr(listener_, &bound);
  if (code == 0) {
    port_ = bound.port;
  } else if (listener_ != nullptr) {
    lyre_close_listener(std::exchange(listener_, nullptr));
  }
  return code;
}

Acceptor::~Acceptor() { on_detached(); }

void Acceptor::on_detached() {
  pending_.clear();
  if (listener_ != nullptr) lyre_close_listener(std::exchange(listener_, nullptr));
}

bool Acceptor::on_attached() {
  if (listen() == 0) return true;
  log_info("cannot listen on TCP port %u again yet: %s", port_, lyre_last_error());
  return false;
}

void Acceptor::on_ready() {
  lyre_session* session = nullptr;
  while (lyre_accept(listener_, &session) == 0) {
    auto pending = std::make_unique<PendingConnection>();
    pending->acceptor = this;
    pending->stream = Stream(session);
    pending->address = to_string(pending->stream.remote());
    pending->deadline_ns =
        environment_->now_ns() + environment_->settings().handshake_timeout_ms * 1'000'000;
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
  const int64_t now_ns = environment_->now_ns();
  // In order of arrival, so the first expires first. Bytes received meanwhile are processed.
  while (!pending_.empty() && pending_.front()->deadline_ns <= now_ns) {
    PendingConnection* pending = pending_.front().get();
    const size_t count = pending_.size();
    on_readable(pending);
    if (pending_.size() == count) reject(pending, "it sent no hello in time");
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
    const HelloState state = read_hello(pending->heard, &hello);
    if (state == HelloState::kMore) continue;
    // The context is over, which says nothing of the peer.
    if (!pending->stream.has_read_right()) return forget(pending);
    switch (state) {
      case HelloState::kMore:
        break;
      case HelloState::kComplete:
        return on_hello(pending, hello);
      case HelloState::kStranger:
        return reject(pending, "it does not speak this plugin's protocol");
      case HelloState::kVersion:
        return refuse(pending, version_mismatch(hello));
    }
  }
}

void Acceptor::on_hello(PendingConnection* pending, const Hello& hello) {
  const uint16_t version = common_version(hello);
  const std::vector<uint8_t> welcome = answer(*pending, Decision{}, version);
  const Decision decision = receiver_->on_hello(hello, pending->address, &pending->stream, welcome);
  if (decision.code != AnswerCode::kWelcome) return refuse(pending, decision, version);
  forget(pending);
}

void Acceptor::refuse(PendingConnection* pending, const Decision& decision, uint16_t version) {
  if (decision.is_foreign) {
    reject_foreign(*pending, decision.why, decision.code == AnswerCode::kVersion);
  } else {
    log_info("answered %s: %s", pending->address.c_str(), decision.why.c_str());
  }
  // A failure here is the session's, which ends anyway.
  pending->stream.send_small(answer(*pending, decision, version));
  // An answer that found no room would be lost, and a FIN alone would mean that this process ended.
  // A reset makes the peer dial again.
  if (!pending->stream.is_blocked()) pending->stream.close();
  forget(pending);
}

void Acceptor::reject_foreign(const PendingConnection& pending, const std::string& why,
                              bool is_version) {
  telemetry_->count_foreign(pending.address);
  const auto left_out = lines_->take(is_version, environment_->clock().monotonic_ns());
  if (left_out) log_stranger(pending.address, why, *left_out);
}

void Acceptor::reject(PendingConnection* pending, const char* why) {
  reject_foreign(*pending, why, false);
  forget(pending);
}

void Acceptor::forget(PendingConnection* pending) {
  std::erase_if(pending_, [&](const auto& own) { return own.get() == pending; });
}

std::vector<uint8_t> Acceptor::answer(const PendingConnection& pending, const Decision& decision,
                                      uint16_t version) const {
  Answer words{.version = version,
               .code = decision.code,
               .pid = environment_->pid(),
               .host = environment_->host(),
               .text = decision.why,
               .placed = decision.placed,
               .rails = {}};
  // The family in which the peer came is one that it can reach.
  const lyre_addr remote = pending.stream.remote();
  const Address peer = std::to_array(remote.address);
  for (const lyre_port& port : environment_->ports()) {
    if (words.rails.size() < kRailsMax) words.rails.push_back(address_towards(port, peer));
  }
  std::vector<uint8_t> bytes(kAnswerBytes);
  encode(words, std::span<uint8_t, kAnswerBytes>(bytes.data(), kAnswerBytes));
  return bytes;
}

}  // namespace lyre::nccl_adapter
