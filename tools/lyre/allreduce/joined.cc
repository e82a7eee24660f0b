#include <poll.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/hub.h"
#include "tools/lyre/allreduce/job_json.h"

namespace lyre::allreduce {
namespace {

std::chrono::seconds join_timeout(const Options& options) {
  return std::chrono::seconds(std::min(options.connect_timeout_s, options.timeout_s));
}

class JoinedLauncher {
 public:
  JoinedLauncher(const Options& options, const Machine& machine)
      : options_(options),
        machine_(machine),
        deadline_(std::chrono::steady_clock::now() + std::chrono::seconds(options.timeout_s)),
        hub_(connect_tcp(options.join, join_timeout(options), is_interrupted)),
        processes_(options.own_sessions) {
    std::vector<std::string> hosts;
    for (const Host& host : machine.hosts) hosts.push_back(host.name);
    tell_hub({FrameType::kJoin, 0, {{"local_ranks", machine.local_ranks}, {"hosts", hosts}}});
  }

  int run() {
    while (true) {
      if (is_interrupted()) throw Failure("interrupted");
      if (std::chrono::steady_clock::now() > deadline_) {
        throw Failure("not finished after " + std::to_string(options_.timeout_s) +
                      " s (--timeout)");
      }
      const std::vector<int> readable = wait_readable();
      for (const Frame& frame : processes_.receive(readable)) {
        print_error(frame);
        tell_hub(frame);
      }
      if (std::find(readable.begin(), readable.end(), hub_.get()) == readable.end()) continue;
      const bool open = reader_.read_some(hub_.get());
      while (std::optional<Frame> frame = reader_.next()) {
        if (frame->type == FrameType::kFinish) return finish(frame->payload.get<int>());
        on_hub_frame(*frame);
      }
      if (!open) throw Failure("the launcher at " + options_.join + " has closed its connection");
    }
  }

 private:
  std::vector<int> wait_readable() const {
    std::vector<pollfd> entries{{hub_.get(), POLLIN, 0}};
    for (const int fd : processes_.descriptors()) entries.push_back({fd, POLLIN, 0});
    std::vector<int> readable;
    if (::poll(entries.data(), entries.size(), kPollMs) <= 0) return readable;
    for (const pollfd& entry : entries) {
      if (entry.revents != 0) readable.push_back(entry.fd);
    }
    return readable;
  }

  /// The hub prints the first error of the job on its own machine only.
  void print_error(const Frame& frame) {
    std::string line;
    if (frame.type == FrameType::kError) {
      line = frame.payload.get<RankError>().line;
    } else if (frame.type == FrameType::kExited && !frame.payload.is_null() && !has_printed_) {
      line = "ended early: " + frame.payload.get<std::string>();
    } else {
      return;
    }
    std::cerr << "lyre allreduce: rank " << frame.rank << ": " << line << std::endl;
    has_printed_ = true;
  }

  int finish(int exit_code) const {
    if (exit_code != 0 && !has_printed_) {
      std::cerr << "lyre allreduce: the launcher at " << options_.join
                << " reports a failure, which it prints" << std::endl;
    }
    return exit_code;
  }

  void on_hub_frame(const Frame& frame) {
    if (frame.type != FrameType::kJob) {
      processes_.send(frame);
      return;
    }
    try {
      Job job = frame.payload.get<Job>();
      complete_job(machine_, &job);
      processes_.start(job);
    } catch (const tools::Failure& failure) {
      const Frame error{FrameType::kError, frame.rank,
                        RankError{failure.exit_code(), failure.what()}};
      print_error(error);
      tell_hub(error);
    }
  }

  void tell_hub(const Frame& frame) {
    if (!send_frame(hub_.get(), frame)) {
      throw Failure("the launcher at " + options_.join + " has closed its connection");
    }
  }

  const Options& options_;
  Machine machine_;
  std::chrono::steady_clock::time_point deadline_;
  UniqueFd hub_;
  FrameReader reader_;
  RankProcesses processes_;
  bool has_printed_ = false;
};

}  // namespace

int run_joined(const Options& options, const Machine& machine) {
  return JoinedLauncher(options, machine).run();
}

}  // namespace lyre::allreduce
