// The Lyre side of tests against kernels that do not run `lyre perf`: an echo server, and a client
// like netcat. Exit status: 0, or the LYRE_E code without its sign.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"

namespace lyre::interop {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWaitMs = 100;
constexpr int kDrainMs = 5000;
constexpr size_t kChunkBytes = 64 * 1024;

volatile std::sig_atomic_t g_is_asked_to_stop = 0;

struct Ended {
  int code;
};

/// Returns counts unchanged; throws Ended on a failure other than "not now".
int64_t check(int64_t result) {
  if (result >= 0 || result == LYRE_E_AGAIN) return result;
  throw Ended{static_cast<int>(result)};
}

class Context {
 public:
  Context() { check(lyre_context_open(nullptr, &context_)); }
  ~Context() {
    lyre_drain(context_, kDrainMs);
    lyre_context_close(context_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  lyre_context* get() const { return context_; }
  void wait(bool has_worked) const { check(lyre_poll(context_, has_worked ? 0 : kWaitMs)); }

 private:
  lyre_context* context_ = nullptr;
};

lyre_addr parse(const std::string& text) {
  lyre_addr out{};
  check(lyre_addr_parse(text.c_str(), &out));
  return out;
}

/// Sends back what it receives, and finishes when the peer has finished.
class Echo {
 public:
  explicit Echo(lyre_session* session) : session_(session), bytes_(kChunkBytes) {}
  ~Echo() { lyre_close(session_); }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  bool is_over() const { return is_over_; }

  /// Returns whether it made progress. Fails: throws Ended.
  bool step() {
    if (begin_ == end_) return receive();
    const int64_t taken = check(lyre_send(session_, bytes_.data() + begin_, end_ - begin_));
    if (taken > 0) begin_ += static_cast<size_t>(taken);
    return taken > 0;
  }

 private:
  bool receive() {
    const int64_t count = check(lyre_recv(session_, bytes_.data(), bytes_.size()));
    if (count == 0) is_over_ = true;
    begin_ = 0;
    end_ = count > 0 ? static_cast<size_t>(count) : 0;
    return count >= 0;
  }

  lyre_session* session_;
  std::vector<uint8_t> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool is_over_ = false;
};

bool accept_all(lyre_listener* listener, std::vector<std::unique_ptr<Echo>>& echoes) {
  lyre_session* session = nullptr;
  const size_t before = echoes.size();
  while (check(lyre_accept(listener, &session)) != LYRE_E_AGAIN) {
    echoes.push_back(std::make_unique<Echo>(session));
  }
  return echoes.size() > before;
}

/// Prints the end code of each connection, one line each.
bool step_all(std::vector<std::unique_ptr<Echo>>& echoes) {
  bool has_worked = false;
  std::erase_if(echoes, [&](const std::unique_ptr<Echo>& echo) {
    int code = 0;
    try {
      has_worked |= echo->step();
      if (!echo->is_over()) return false;
    } catch (const Ended& ended) {
      code = ended.code;
    }
    std::cout << "ended " << -code << std::endl;
    return true;
  });
  return has_worked;
}

void run_echo_server(const std::string& address, int backlog) {
  const Context context;
  const lyre_addr at = parse(address);
  lyre_listener* listener = nullptr;
  check(lyre_listen(context.get(), &at, backlog, &listener));
  std::cout << "listening" << std::endl;
  std::vector<std::unique_ptr<Echo>> echoes;
  while (g_is_asked_to_stop == 0) {
    const bool has_accepted = accept_all(listener, echoes);
    context.wait(step_all(echoes) || has_accepted);
  }
}

struct ClientOptions {
  std::string address;
  uint64_t abort_after_bytes = 0;
  int pause_ms = 0;
  uint32_t times = 1;
};

/// Sends `input`, then FIN; collects the received data until the peer's FIN.
class Client {
 public:
  Client(const Context& context, const ClientOptions& options, const std::vector<uint8_t>& input)
      : context_(context), options_(options), input_(input) {
    const lyre_addr remote = parse(options.address);
    check(lyre_connect(context.get(), nullptr, &remote, &session_));
    reads_from_ = Clock::now() + std::chrono::milliseconds(options.pause_ms);
  }
  ~Client() {
    if (session_ != nullptr) lyre_close(session_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::vector<uint8_t> run() {
    while (lyre_state(session_) == LYRE_CONNECTING) context_.wait(false);
    check(lyre_session_error(session_));
    while (!is_over_) {
      const bool has_sent = send();
      context_.wait(receive() || has_sent);
    }
    return std::move(output_);
  }

 private:
  bool send() {
    if (is_finished_) return false;
    if (sent_ == input_.size()) {
      is_finished_ = check(lyre_shutdown(session_)) == 0;
      return is_finished_;
    }
    const int64_t taken = check(lyre_send(session_, input_.data() + sent_, input_.size() - sent_));
    if (taken > 0) sent_ += static_cast<size_t>(taken);
    return taken > 0;
  }

  bool receive() {
    if (Clock::now() < reads_from_) return false;
    const int64_t count = check(lyre_recv(session_, chunk_.data(), chunk_.size()));
    if (count == LYRE_E_AGAIN) return false;
    output_.insert(output_.end(), chunk_.begin(), chunk_.begin() + count);
    is_over_ = count == 0;
    if (options_.abort_after_bytes > 0 && output_.size() >= options_.abort_after_bytes) {
      lyre_abort(session_);
      session_ = nullptr;
      is_over_ = true;
    }
    return true;
  }

  const Context& context_;
  const ClientOptions& options_;
  const std::vector<uint8_t>& input_;
  lyre_session* session_ = nullptr;
  Clock::time_point reads_from_;
  std::array<uint8_t, kChunkBytes> chunk_{};
  std::vector<uint8_t> output_;
  size_t sent_ = 0;
  bool is_finished_ = false;
  bool is_over_ = false;
};

std::vector<uint8_t> read_input() {
  std::vector<uint8_t> bytes;
  std::array<uint8_t, kChunkBytes> chunk{};
  ssize_t count = 0;
  while ((count = ::read(STDIN_FILENO, chunk.data(), chunk.size())) != 0) {
    if (count > 0) bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + count);
    if (count < 0 && errno != EINTR) break;
  }
  return bytes;
}

/// Sends standard input on each connection; writes the data of the last one to standard output.
void run_client(const ClientOptions& options) {
  const std::vector<uint8_t> input = read_input();
  const Context context;
  std::vector<uint8_t> output;
  for (uint32_t i = 0; i < options.times; ++i) output = Client(context, options, input).run();
  std::cout.write(reinterpret_cast<const char*>(output.data()),
                  static_cast<std::streamsize>(output.size()));
  std::cout.flush();
}

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { g_is_asked_to_stop = 1; });
  CLI::App app("The Lyre side of tests against kernels");
  app.require_subcommand(1);
  ClientOptions options;
  int backlog = 256;
  CLI::App* server = app.add_subcommand("echo", "Echo what every client sends");
  server->add_option("address", options.address)->required();
  server->add_option("--backlog", backlog, "Connections that wait to be accepted");
  CLI::App* client = app.add_subcommand("connect", "Standard input out, what comes back to output");
  client->add_option("address", options.address)->required();
  client->add_option("--abort-after", options.abort_after_bytes, "Reset after so many bytes");
  client->add_option("--pause-ms", options.pause_ms, "Read nothing at first");
  client->add_option("--times", options.times, "Connections, one after the other");
  CLI11_PARSE(app, argc, argv);
  try {
    server->parsed() ? run_echo_server(options.address, backlog) : run_client(options);
    return 0;
  } catch (const Ended& ended) {
    std::cerr << "lyre_peer: " << lyre_strerror(ended.code) << ": " << lyre_last_error()
              << std::endl;
    return -ended.code;
  }
}

}  // namespace
}  // namespace lyre::interop

int main(int argc, char** argv) { return lyre::interop::main(argc, argv); }
