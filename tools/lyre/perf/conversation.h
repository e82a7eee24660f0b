#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tools/lyre/perf/collector.h"
#include "tools/lyre/perf/exchange.h"
#include "tools/lyre/perf/protocol.h"
#include "tools/lyre/perf/stream.h"

namespace lyre::perf {

/// One connection from its first byte to its last: agreeing on a plan, the exchange, and closing.
/// Fails: step() throws StreamError, after which the conversation is not used any more.
class Conversation {
 public:
  /// `plan` is that of a client. A server has none: the client sends it.
  Conversation(std::unique_ptr<Stream> stream, const std::optional<Plan>& plan);

  /// Does bounded work. False when there was none.
  bool step(int64_t now_ns);
  /// When step() has work again without an event of the stream. 0: with an event only.
  int64_t due_ns() const { return phase_ == Phase::kExchange ? exchange_->due_ns() : 0; }
  /// Closed: the stream may be destroyed.
  bool is_over() const { return phase_ == Phase::kOver; }
  /// The exchange is complete and `outcome()` is final. Closing may go on.
  bool is_complete() const { return phase_ == Phase::kPart || phase_ == Phase::kOver; }
  /// REQUIRES: is_complete().
  const Outcome& outcome() const { return exchange_->outcome(); }
  /// Zero until both sides have agreed on the plan.
  Progress progress() const { return exchange_ != nullptr ? exchange_->progress() : Progress{}; }
  /// A server has it when it has arrived.
  const std::optional<Plan>& plan() const { return plan_; }
  std::string peer() const { return stream_->peer(); }
  int64_t started_ns() const { return started_ns_; }
  int64_t completed_ns() const { return completed_ns_; }

 private:
  enum class Phase { kOpen, kPlan, kWelcome, kExchange, kPart, kOver };

  bool send_plan();
  bool take_plan();
  bool take_welcome();
  bool exchange(int64_t now);
  bool part(int64_t now);

  std::unique_ptr<Stream> stream_;
  Side side_;
  std::optional<Plan> plan_;
  Phase phase_ = Phase::kOpen;
  int64_t begun_ns_ = 0;  ///< when this object was first stepped
  int64_t started_ns_ = 0;
  int64_t completed_ns_ = 0;
  Collector<kPlanBytes> received_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace lyre::perf
