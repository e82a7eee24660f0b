// One rank of a job whose network will fail. Each line of stdin is a command, and is answered with
// a line. Every byte that arrives is verified.
//
//   handle [HEX]  rank 1 listens and prints its handle; rank 0 is given it
//   dial          rank 0 calls connect() once
//   connect       until the comm is established
//   say           sends, or receives, one small message
//   stream        1 MiB messages until rank 0 reads "stop"
//   close         closes the comm and finalizes the plugin
//
// Answers: the command's name; "moved N" after each 16 messages of a stream; or "error RESULT
// LINE", after which the process exits with status 3.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <stdexcept>
#include <string>

#include "tests/adapter/link.h"

namespace lyre::test {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr size_t kInFlight = 4;
constexpr int kExitError = 3;

struct Failed {
  Result result;
};

void require(Result result) {
  if (result != Result::kSuccess) throw Failed{result};
}

bool has_input() {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  return ::poll(&in, 1, 0) > 0;
}

class FaultRank {
 public:
  FaultRank(int index, int abi) : index_(index), plugin_(load_tested_plugin(abi)) {
    require(plugin_->init(kCommId));
  }

  void run(const std::string& word, const std::string& rest) {
    if (word == "handle") return exchange_handle(rest);
    if (word == "dial") require(plugin_->connect(0, handle_.data(), &comm_));
    if (word == "connect") connect();
    if (word == "say") say();
    if (word == "stream") stream();
    if (word == "close") close();
    std::cout << word << std::endl;
  }

 private:
  void exchange_handle(const std::string& hex) {
    if (index_ == 1) {
      require(plugin_->listen(0, handle_.data(), &listen_comm_));
      std::cout << "handle ";
      for (const uint8_t byte : handle_) std::printf("%02x", byte);
      std::cout << std::endl;
      return;
    }
    for (size_t i = 0; i < handle_.size(); ++i) {
      handle_[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
    }
    std::cout << "handle" << std::endl;
  }

  void connect() {
    while (comm_ == nullptr) {
      require(index_ == 0 ? plugin_->connect(0, handle_.data(), &comm_)
                          : plugin_->accept(listen_comm_, &comm_));
      ::usleep(100);
    }
  }

  struct Step {
    void* request = nullptr;
    std::vector<uint8_t> data;
  };

  Step post(size_t bytes, bool is_last) {
    Step step;
    step.data = index_ == 0 ? pattern(number_++, bytes) : std::vector<uint8_t>(bytes);
    if (index_ == 0) step.data[0] = is_last ? 1 : 0;
    while (step.request == nullptr) {
      require(index_ == 0 ? plugin_->isend(comm_, {step.data.data(), bytes}, &step.request)
                          : plugin_->irecv(comm_, {step.data.data(), bytes}, &step.request));
    }
    return step;
  }

  // True when this was the last message.
  bool finish(Step step) {
    int done = 0;
    int bytes = 0;
    while (done == 0) {
      require(plugin_->test(step.request, &done, &bytes));
      if (done == 0) ::sched_yield();
    }
    if (index_ == 0) return false;
    std::vector<uint8_t> expected = pattern(number_++, static_cast<size_t>(bytes));
    expected[0] = step.data[0];
    step.data.resize(static_cast<size_t>(bytes));
    if (step.data != expected) throw std::runtime_error("wrong bytes");
    return step.data[0] == 1;
  }

  void say() { finish(post(1000, false)); }

  void stream() {
    std::deque<Step> in_flight;
    bool is_last = false;
    for (uint64_t moved = 0; !is_last;) {
      is_last = index_ == 0 && has_input();
      if (index_ == 0) in_flight.push_back(post(kBytes, is_last));
      // The receiver does not know the number of messages, so it posts one receive at a time.
      if (index_ == 1) in_flight.push_back(post(kBytes, false));
      while (!in_flight.empty() && (is_last || index_ == 1 || in_flight.size() >= kInFlight)) {
        is_last = finish(std::move(in_flight.front())) || is_last;
        in_flight.pop_front();
        if (++moved % 16 == 0) std::cout << "moved " << moved << std::endl;
      }
    }
  }

  void close() {
    require(index_ == 0 ? plugin_->close_send(comm_) : plugin_->close_recv(comm_));
    if (listen_comm_ != nullptr) require(plugin_->close_listen(listen_comm_));
    require(plugin_->finalize());
  }

  int index_;
  std::unique_ptr<NetPlugin> plugin_;
  HandleBuffer handle_{};
  void* listen_comm_ = nullptr;
  void* comm_ = nullptr;
  uint64_t number_ = 0;
};

int main_of_rank(int index, int abi) {
  try {
    FaultRank rank(index, abi);
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line) && line != "quit";) {
      const size_t space = std::min(line.find(' '), line.size());
      const std::string rest = space < line.size() ? line.substr(space + 1) : "";
      // "stop" ends a stream, which only checks whether there is input.
      if (line != "stop") rank.run(line.substr(0, space), rest);
    }
    return 0;
  } catch (const Failed& failed) {
    const std::vector<std::string> lines = logged_warnings();
    std::cout << "error " << nccl_abi::result_name(failed.result) << " "
              << (lines.empty() ? "" : lines.back()) << std::endl;
    return kExitError;
  } catch (const std::exception& error) {
    std::cout << "error " << error.what() << std::endl;
    return kExitError;
  }
}

}  // namespace
}  // namespace lyre::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: fault_rank INDEX ABI" << std::endl;
    return 2;
  }
  return lyre::test::main_of_rank(std::atoi(argv[1]), std::atoi(argv[2]));
}
