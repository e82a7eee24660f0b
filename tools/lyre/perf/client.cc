#include "tools/lyre/perf/client.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/lyre/failure.h"
#include "tools/lyre/json_document.h"
#include "tools/lyre/perf/conversation.h"
#include "tools/lyre/perf/report.h"
#include "tools/lyre/perf/turns.h"
#include "tools/lyre/progress_line.h"

namespace lyre::perf {
namespace {

using Conversations = std::vector<std::unique_ptr<Conversation>>;

/// Steps each conversation once. False when none of them had work.
bool step_all(Conversations& conversations, Turns& turns, int64_t now) {
  bool has_worked = false;
  turns.next_round(conversations.size(), [&](size_t index) {
    Conversation& conversation = *conversations[index];
    try {
      has_worked |= conversation.step(now);
    } catch (const StreamError& error) {
      throw tools::Failure(tools::kExitFailure, conversation.peer() + ": " + error.what());
    }
  });
  return has_worked;
}

/// The first time at which one of them has work without an event. 0: none has.
int64_t next_due_ns(const Conversations& conversations, int64_t now) {
  int64_t next = 0;
  for (const auto& conversation : conversations) {
    const int64_t due = conversation->due_ns();
    if (due > now && (next == 0 || due < next)) next = due;
  }
  return next;
}

std::vector<Result> results_of(const Conversations& conversations) {
  std::vector<Result> out;
  for (const auto& conversation : conversations) {
    out.push_back({.peer = conversation->peer(),
                   .plan = *conversation->plan(),
                   .outcome = conversation->outcome(),
                   .started_ns = conversation->started_ns(),
                   .completed_ns = conversation->completed_ns()});
  }
  return out;
}

Progress sum_of(const Conversations& conversations) {
  Progress sum;
  for (const auto& conversation : conversations) {
    const Progress part = conversation->progress();
    sum.sent_bytes += part.sent_bytes;
    sum.received_bytes += part.received_bytes;
    sum.round_trips += part.round_trips;
  }
  return sum;
}

/// Shows the progress of all sessions together once a second.
class Monitor {
 public:
  explicit Monitor(Plan plan) : plan_(std::move(plan)) {}

  void look(const Conversations& conversations) {
    if (!line_.is_visible()) return;
    const int64_t now = now_ns();
    if (now - shown_ns_ < kIntervalNs) return;
    const Progress progress = sum_of(conversations);
    line_.show(progress_text(plan_, before_, progress, now - shown_ns_, now - started_ns_));
    before_ = progress;
    shown_ns_ = now;
  }

 private:
  static constexpr int64_t kIntervalNs = 1'000'000'000;

  Plan plan_;  // `count` is that of all sessions together
  tools::ProgressLine line_;
  int64_t started_ns_ = now_ns();
  int64_t shown_ns_ = started_ns_;
  Progress before_;
};

Plan plan_of_all(const ClientOptions& options) {
  Plan plan = options.plan;
  plan.count *= options.sessions;
  return plan;
}

/// Runs the conversations to their ends.
void run(Network& network, Conversations& conversations, const ClientOptions& options) {
  Monitor monitor(plan_of_all(options));
  Turns turns;
  const auto is_over = [](const auto& conversation) { return conversation->is_over(); };
  while (!std::all_of(conversations.begin(), conversations.end(), is_over)) {
    const int64_t now = now_ns();
    const bool has_worked = step_all(conversations, turns, now);
    monitor.look(conversations);
    network.wait(has_worked ? 0 : wait_ms(next_due_ns(conversations, now), now));
  }
}

}  // namespace

int wait_ms(int64_t due_ns, int64_t stepped_ns) {
  constexpr int64_t kNsPerMs = 1'000'000;
  // What was due at the step, and not done, waits for room in the stream: an event.
  if (due_ns <= stepped_ns) return kWaitMs;
  return static_cast<int>(
      std::min<int64_t>((due_ns - stepped_ns + kNsPerMs - 1) / kNsPerMs, kWaitMs));
}

void run_client(Network& network, const ClientOptions& options) {
  Conversations conversations;
  for (uint32_t i = 0; i < options.sessions; ++i) {
    conversations.push_back(
        std::make_unique<Conversation>(network.connect(options.server), options.plan));
  }
  run(network, conversations, options);
  const std::vector<Result> results = results_of(conversations);
  conversations.clear();
  network.drain(kDrainMs);
  if (options.is_json) {
    std::cout << tools::json_text(tools::document_of(client_json(results, network.name())), false);
  } else {
    std::cout << client_text(results, network.name());
  }
  const bool is_intact = std::all_of(results.begin(), results.end(), [](const Result& result) {
    return result.outcome.is_intact();
  });
  if (!is_intact) throw tools::Failure(tools::kExitFailure, "bytes differ between the two sides");
}

}  // namespace lyre::perf
