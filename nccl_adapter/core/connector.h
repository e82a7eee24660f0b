#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/core/comm.h"
#include "nccl_adapter/core/handle.h"
#include "nccl_adapter/core/hello.h"
#include "nccl_adapter/core/stream.h"

namespace lyre::nccl_adapter {

class Instance;

/// The connecting half of the handshake, between two calls of connect().
/// Thread: under the instance's lock. Owner: the instance.
class Connector final : public SessionOwner {
 public:
  enum class Progress { kPending, kConnected, kFailed };

  /// `local` is the rail's address.
  Connector(Instance* instance, const lyre_addr& local, const Handle& handle);

  /// One step; never blocks.
  Progress advance();
  /// REQUIRES: advance() gave kConnected, once.
  std::unique_ptr<SendComm> make_comm();
  /// What connect() returns. REQUIRES: advance() gave kFailed, which also logged a line.
  nccl_abi::Result result() const { return result_; }

  /// connect() asks again; nothing to do in between.
  void on_ready() override {}

 private:
  enum class Phase { kStart, kDialing, kAwaitAnswer, kDone };

  Progress start();
  Progress dial_ended();
  Progress greet();
  Progress read_answer();
  Progress judge(const Answer& answer);
  Progress fail(nccl_abi::Result result, const std::string& why);
  Progress fail_with(int code);
  void mention_slow_peer();

  Instance* instance_;
  lyre_addr local_;
  lyre_addr remote_;
  Handle handle_;
  Nonce comm_id_{};
  Phase phase_ = Phase::kStart;
  Stream stream_;
  std::vector<uint8_t> heard_;
  int redials_left_ = kRedialsMax;
  int64_t greeted_ns_ = 0;
  bool is_slow_mentioned_ = false;
  nccl_abi::Result result_ = nccl_abi::Result::kSuccess;
};

}  // namespace lyre::nccl_adapter
