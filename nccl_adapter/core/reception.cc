#include "nccl_adapter/core/reception.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "nccl_adapter/core/instance.h"
#include "nccl_adapter/core/log.h"
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

bool ListenComm::take(Arrival* out) {
  while (!arrivals_.empty()) {
    *out = std::move(arrivals_.front());
    arrivals_.pop_front();
    if (out->stream.state() != LYRE_ENDED) return true;
    log_info("%s (%s) left before it was accepted", out->hello.host.c_str(), out->address.c_str());
    out->stream.abort();
  }
  return false;
}

std::unique_ptr<Reception> Reception::open(Instance* instance, const lyre_port& port) {
  lyre_addr local{};
  std::copy(std::begin(port.address), std::end(port.address), std::begin(local.address));
  lyre_listener* listener = nullptr;
  int code = lyre_listen(instance->context(), &local, kListenBacklog, &listener);
  lyre_addr bound{};
  if (code == 0) code = lyre_listener_addr(listener, &bound);
  if (code != 0) {
    if (!instance->note_daemon_error(code)) {
      log_warn("cannot listen on port %s: %s", port.name, lyre_last_error());
    }
    if (listener != nullptr) lyre_close_listener(listener);
    return nullptr;
  }
  return std::unique_ptr<Reception>(new Reception(instance, listener, bound));
}

Reception::~Reception() {
  visitors_.clear();
  listen_comms_.clear();
  lyre_close_listener(listener_);
}

ListenComm* Reception::listen(const Nonce& nonce) {
  auto& slot = listen_comms_[nonce];
  slot = std::make_unique<ListenComm>(this, nonce);
  return slot.get();
}

void Reception::close(ListenComm* listen_comm) { listen_comms_.erase(listen_comm->nonce()); }

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
  const auto it = listen_comms_.find(hello.nonce);
  if (it == listen_comms_.end()) {
    return refuse(visitor, AnswerCode::kUnknown, "nobody listens under that handle (any more)");
  }
  if (hello.stream_count != 1 || hello.stream_index != 0) {
    return refuse(visitor, AnswerCode::kBadStream, "this plugin carries a comm over one stream");
  }
  if (it->second->is_full()) {
    return refuse(visitor, AnswerCode::kBusy, "too many connections wait for accept");
  }
  Arrival arrival{hello, std::move(visitor->stream), visitor->address};
  forget(visitor);
  // Nobody hears this session until accept() makes a comm of it.
  arrival.stream.set_owner(nullptr);
  answer(&arrival.stream, AnswerCode::kWelcome, "");
  it->second->add(std::move(arrival));
}

void Reception::refuse(Visitor* visitor, AnswerCode code, const std::string& why) {
  log_stranger(visitor->address, why);
  answer(&visitor->stream, code, why);
  visitor->stream.close();
  forget(visitor);
}

void Reception::show_out(Visitor* visitor, const char* why) {
  log_stranger(visitor->address, why);
  forget(visitor);
}

void Reception::forget(Visitor* visitor) {
  std::erase_if(visitors_, [&](const auto& own) { return own.get() == visitor; });
}

void Reception::answer(Stream* stream, AnswerCode code, const std::string& text) {
  uint8_t bytes[kAnswerBytes];
  encode(Answer{.code = code,
                .pid = static_cast<uint32_t>(::getpid()),
                .host = instance_->host(),
                .text = text},
         bytes);
  // A failure here is the session's, and whoever reads from it next will meet it.
  (void)stream->send_small(bytes);
}

}  // namespace lyre::nccl_adapter
