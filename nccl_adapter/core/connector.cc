#include "nccl_adapter/core/connector.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "nccl_adapter/core/instance.h"
#include "nccl_adapter/core/log.h"
#include "nccl_adapter/core/random.h"
#include "nccl_adapter/core/status.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

Connector::Connector(Instance* instance, const lyre_addr& local, const Handle& handle)
    : instance_(instance), local_(local), remote_{}, handle_(handle), comm_id_(make_nonce()) {
  local_.port = 0;
  std::copy(handle.address.begin(), handle.address.end(), std::begin(remote_.address));
  remote_.port = handle.port;
}

Connector::Progress Connector::advance() {
  switch (phase_) {
    case Phase::kStart:
      return start();
    case Phase::kDialing:
      if (stream_.state() == LYRE_CONNECTING) return Progress::kPending;
      if (stream_.state() == LYRE_ENDED) return dial_ended();
      return greet();
    case Phase::kAwaitAnswer:
      return read_answer();
    case Phase::kDone:
      return Progress::kConnected;
  }
  return Progress::kFailed;
}

Connector::Progress Connector::start() {
  lyre_session* session = nullptr;
  const int code = lyre_connect(instance_->context(), &local_, &remote_, &session);
  if (code == LYRE_E_AGAIN) return Progress::kPending;
  if (code != 0) return fail_with(code);
  stream_ = Stream(session);
  stream_.set_owner(this);
  heard_.clear();
  phase_ = Phase::kDialing;
  return Progress::kPending;
}

// A listener that was too busy to hear us in time resets; it deserves another try.
Connector::Progress Connector::dial_ended() {
  const int code = stream_.error();
  if (code == LYRE_E_RESET && redials_left_-- > 0) {
    stream_.abort();
    phase_ = Phase::kStart;
    return Progress::kPending;
  }
  if (code == 0) return fail(Result::kRemoteError, "it closed the connection without an answer");
  return fail_with(code);
}

Connector::Progress Connector::greet() {
  uint8_t bytes[kHelloBytes];
  encode(Hello{.pid = static_cast<uint32_t>(::getpid()),
               .nonce = handle_.nonce,
               .comm_id = comm_id_,
               .host = instance_->host()},
         bytes);
  if (stream_.send_small(bytes) == Io::kFailed) return dial_ended();
  phase_ = Phase::kAwaitAnswer;
  greeted_ns_ = now_ns();
  return Progress::kPending;
}

Connector::Progress Connector::read_answer() {
  if (stream_.flush() == Io::kFailed) return dial_ended();
  while (heard_.size() < kAnswerBytes) {
    std::span<const uint8_t> bytes;
    const Io io = stream_.peek(&bytes);
    if (io == Io::kAgain) {
      mention_slow_peer();
      return Progress::kPending;
    }
    if (io != Io::kOk) return dial_ended();
    const size_t taken = std::min(bytes.size(), kAnswerBytes - heard_.size());
    heard_.insert(heard_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(taken));
    stream_.consume(taken);
  }
  stream_.release();
  Answer answer;
  if (!decode(std::span<const uint8_t, kAnswerBytes>(heard_.data(), kAnswerBytes), &answer)) {
    return fail(Result::kRemoteError, "what answers there is no Lyre plugin");
  }
  return judge(answer);
}

Connector::Progress Connector::judge(const Answer& answer) {
  if (answer.code != AnswerCode::kWelcome) {
    const bool is_usage = answer.code == AnswerCode::kVersion;
    return fail(is_usage ? Result::kInvalidUsage : Result::kRemoteError,
                "it refused: " + answer.text);
  }
  if (answer.version < kProtocolVersionMin || answer.version > kProtocolVersionMax) {
    return fail(Result::kInvalidUsage, "it chose protocol version " +
                                           std::to_string(answer.version) +
                                           ", which this library does not speak");
  }
  phase_ = Phase::kDone;
  return Progress::kConnected;
}

std::unique_ptr<SendComm> Connector::make_comm() {
  return std::make_unique<SendComm>(instance_, std::move(stream_),
                                    Peer{handle_.host, handle_.pid, to_string(remote_)});
}

// A peer that is alive and busy elsewhere is not an error: it will listen when it gets there.
void Connector::mention_slow_peer() {
  if (is_slow_mentioned_) return;
  const int64_t patience_ns = instance_->settings().peer_timeout_s * 1'000'000'000;
  if (now_ns() - greeted_ns_ < patience_ns) return;
  is_slow_mentioned_ = true;
  log_warn("still waiting for host %s (%s), process %u to accept", handle_.host.c_str(),
           to_string(remote_).c_str(), handle_.pid);
}

Connector::Progress Connector::fail(Result result, const std::string& why) {
  log_warn("cannot connect to host %s (%s), process %u: %s", handle_.host.c_str(),
           to_string(remote_).c_str(), handle_.pid, why.c_str());
  result_ = result;
  stream_.abort();
  return Progress::kFailed;
}

Connector::Progress Connector::fail_with(int code) {
  if (!instance_->note_daemon_error(code)) return fail(to_result(code), lyre_strerror(code));
  result_ = Result::kSystemError;
  return Progress::kFailed;
}

}  // namespace lyre::nccl_adapter
