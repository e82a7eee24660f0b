#include "tools/lyre/perf/server.h"

#include <csignal>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/lyre/failure.h"
#include "tools/lyre/json_document.h"
#include "tools/lyre/perf/conversation.h"
#include "tools/lyre/perf/report.h"
#include "tools/lyre/perf/turns.h"
#include "tools/lyre/units.h"

namespace lyre::perf {
namespace {

volatile std::sig_atomic_t g_is_interrupted = 0;

void interrupt(int) { g_is_interrupted = 1; }

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

class Server {
 public:
  Server(Network& network, const ServerOptions& options) : network_(network), options_(options) {}

  void run() {
    while (g_is_interrupted == 0 && !(options_.is_once && served_ > 0 && clients_.empty())) {
      bool has_worked = accept_all();
      const int64_t now = now_ns();
      turns_.next_round(clients_.size(),
                        [&](size_t index) { has_worked |= step(*clients_[index], now); });
      std::erase_if(clients_, [](const auto& client) {
        return client->conversation->is_over() || client->is_broken;
      });
      network_.wait(has_worked ? 0 : kWaitMs);
    }
    clients_.clear();
    network_.drain(kDrainMs);
    if (options_.is_once && has_bad_bytes_) {
      throw tools::Failure(tools::kExitFailure, "bytes differ between the two sides");
    }
    if (options_.is_once && has_broken_) {
      throw tools::Failure(tools::kExitFailure, "a client's test did not end in order");
    }
  }

 private:
  struct Client {
    std::unique_ptr<Conversation> conversation;
    bool is_reported = false;
    bool is_broken = false;
  };

  bool accept_all() {
    bool has_accepted = false;
    while (auto stream = network_.try_accept()) {
      auto client = std::make_unique<Client>();
      client->conversation = std::make_unique<Conversation>(std::move(stream), std::nullopt);
      clients_.push_back(std::move(client));
      has_accepted = true;
    }
    return has_accepted;
  }
  bool step(Client& client, int64_t now) {
    try {
      const bool has_worked = client.conversation->step(now);
      if (client.conversation->is_complete() && !client.is_reported) report(client);
      return has_worked;
    } catch (const StreamError& error) {
      std::cerr << "lyre perf server: " << client.conversation->peer() << ": " << error.what()
                << std::endl;
      client.is_broken = true;
      // One that sent no plan is perhaps no client at all.
      if (client.conversation->plan() && !client.is_reported) {
        has_broken_ = true;
        ++served_;
      }
      return true;
    }
  }
  void report(Client& client) {
    const Conversation& conversation = *client.conversation;
    const Result result{.peer = conversation.peer(),
                        .plan = *conversation.plan(),
                        .outcome = conversation.outcome(),
                        .started_ns = conversation.started_ns(),
                        .completed_ns = conversation.completed_ns()};
    if (options_.is_json) {
      const auto document = tools::document_of(server_json(result, network_.name()));
      std::cout << tools::json_text(document, true) << std::flush;
    } else {
      std::cout << server_text(result) << std::flush;
    }
    client.is_reported = true;
    has_bad_bytes_ |= !result.outcome.is_intact();
    ++served_;
  }

  Network& network_;
  ServerOptions options_;
  std::vector<std::unique_ptr<Client>> clients_;
  Turns turns_;
  uint64_t served_ = 0;
  bool has_bad_bytes_ = false;
  bool has_broken_ = false;
};

}  // namespace

void run_server(Network& network, const ServerOptions& options) {
  catch_signals();
  const lyre_addr at = network.listen(options.listen);
  // On stderr, so that stdout holds results only; scripts wait for this line.
  std::cerr << "listening on " << tools::format_endpoint(at.address, at.port) << " ("
            << network.name() << ")" << std::endl;
  Server(network, options).run();
}

}  // namespace lyre::perf
