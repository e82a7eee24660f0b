#include "tools/lyre/perf/client.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/lyre/failure.h"
#include "tools/lyre/perf/conversation.h"
#include "tools/lyre/perf/report.h"

namespace lyre::perf {
namespace {

using Conversations = std::vector<std::unique_ptr<Conversation>>;

/// Steps each once. False when none had anything to do.
bool step_all(Conversations& conversations) {
  const int64_t now = now_ns();
  bool has_worked = false;
  for (const auto& conversation : conversations) {
    try {
      has_worked |= conversation->step(now);
    } catch (const StreamError& error) {
      throw tools::Failure(tools::kExitFailure, conversation->peer() + ": " + error.what());
    }
  }
  return has_worked;
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

}  // namespace

void run_client(Network& network, const ClientOptions& options) {
  Conversations conversations;
  for (uint32_t i = 0; i < options.sessions; ++i) {
    conversations.push_back(
        std::make_unique<Conversation>(network.connect(options.server), options.plan));
  }
  const auto is_over = [](const auto& conversation) { return conversation->is_over(); };
  while (!std::all_of(conversations.begin(), conversations.end(), is_over)) {
    const bool has_worked = step_all(conversations);
    network.wait(has_worked ? 0 : kWaitMs);
  }
  const std::vector<Result> results = results_of(conversations);
  conversations.clear();
  network.drain(kDrainMs);
  if (options.is_json) {
    std::cout << client_json(results, network.name()).dump(2) << "\n";
  } else {
    std::cout << client_text(results, network.name());
  }
  const bool is_intact = std::all_of(results.begin(), results.end(), [](const Result& result) {
    return result.outcome.is_intact();
  });
  if (!is_intact) throw tools::Failure(tools::kExitFailure, "bytes differ between the two sides");
}

}  // namespace lyre::perf
