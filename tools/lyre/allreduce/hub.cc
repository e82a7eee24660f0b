#include "tools/lyre/allreduce/hub.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/job_json.h"
#include "tools/lyre/printable.h"

namespace lyre::allreduce {
namespace {

using std::chrono::steady_clock;

// After the first error the other ranks have this time to abort; then they are killed.
constexpr std::chrono::seconds kAbortTimeout{3};

volatile sig_atomic_t g_interrupted = 0;

void on_interrupt(int) { g_interrupted = 1; }

std::vector<int> poll_readable(const std::vector<int>& descriptors) {
  std::vector<pollfd> entries;
  for (const int fd : descriptors) entries.push_back({fd, POLLIN, 0});
  std::vector<int> readable;
  if (::poll(entries.data(), entries.size(), kPollMs) <= 0) return readable;
  for (const pollfd& entry : entries) {
    if (entry.revents != 0) readable.push_back(entry.fd);
  }
  return readable;
}

bool contains(const std::vector<int>& descriptors, int fd) {
  return std::find(descriptors.begin(), descriptors.end(), fd) != descriptors.end();
}

bool is_exit_code_of_failure(int code) {
  return code >= tools::kExitFailure && code <= tools::kExitOtherRelease;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool is_interrupted() { return g_interrupted != 0; }

Hub::Hub(const Options& options, const Machine& machine)
    : options_(options),
      machine_(machine),
      deadline_(steady_clock::now() + std::chrono::seconds(options.timeout_s)),
      last_frame_(steady_clock::now()),
      processes_(options.own_sessions) {
  if (!options.listen.empty()) wait_for_machines();
  place_ranks();
}

Hub::~Hub() {
  for (const auto& joined : joined_) {
    send_frame(joined->fd.get(), {FrameType::kFinish, 0, exit_code_});
  }
}

int Hub::missing_ranks() const {
  int missing = options_.ranks - machine_.local_ranks;
  for (const auto& joined : joined_) missing -= joined->local_ranks;
  return missing;
}

void Hub::wait_for_machines() {
  const UniqueFd listener = listen_tcp(options_.listen);
  Candidates candidates;
  while (missing_ranks() > 0) {
    const int missing = missing_ranks();
    std::cerr << "waiting at " << options_.listen << " for " << missing << " more rank"
              << (missing == 1 ? "" : "s") << std::endl;
    await_machine(listener.get(), &candidates);
  }
  if (missing_ranks() < 0) {
    throw Failure(std::to_string(options_.ranks - missing_ranks()) +
                  " ranks have joined, --ranks is " + std::to_string(options_.ranks));
  }
}

void Hub::check_wait() {
  last_frame_ = steady_clock::now();  // the wait for other machines has no stall timeout
  if (last_frame_ > deadline_) {
    throw Failure(std::to_string(missing_ranks()) + " of " + std::to_string(options_.ranks) +
                  " ranks did not join at " + options_.listen + " within " +
                  std::to_string(options_.timeout_s) + " s (--timeout)");
  }
  check_deadlines();
}

// Until one has joined.
void Hub::await_machine(int listener, Candidates* candidates) {
  const size_t before = joined_.size();
  while (joined_.size() == before) {
    check_wait();
    std::vector<int> descriptors{listener};
    for (const auto& candidate : *candidates) descriptors.push_back(candidate->fd.get());
    const std::vector<int> readable = poll_readable(descriptors);
    if (contains(readable, listener)) {
      candidates->push_back(std::make_unique<Joined>());
      candidates->back()->fd = accept_tcp(listener);
      continue;
    }
    for (auto& candidate : *candidates) {
      if (!contains(readable, candidate->fd.get())) continue;
      if (accept_join(candidate.get())) {
        joined_.push_back(std::move(candidate));
      } else {
        candidate.reset();
      }
    }
    std::erase(*candidates, nullptr);
  }
}

// False when the first bytes are not a whole join frame, which fits one segment.
bool Hub::accept_join(Joined* candidate) {
  try {
    if (!candidate->reader.read_some(candidate->fd.get())) return false;
    const std::optional<Frame> frame = candidate->reader.next();
    if (!frame || frame->type != FrameType::kJoin) return false;
    candidate->local_ranks = frame->payload.at("local_ranks").get<int>();
    candidate->hosts = frame->payload.at("hosts").get<std::vector<std::string>>();
    return candidate->local_ranks > 0 && candidate->local_ranks <= kRanksMax &&
           !candidate->hosts.empty();
  } catch (const std::exception&) {
    return false;
  }
}

std::string Hub::unique_name(const std::string& host, size_t machine) const {
  const std::string shown = tools::printable(host);
  const auto is_same = [&](const std::string& other) { return tools::printable(other) == shown; };
  bool is_taken = std::any_of(machine_.hosts.begin(), machine_.hosts.end(),
                              [&](const Host& mine) { return is_same(mine.name); });
  for (size_t i = 0; i < machine; ++i) {
    is_taken = is_taken || std::ranges::any_of(joined_[i]->hosts, is_same);
  }
  return is_taken ? shown + "@" + std::to_string(machine + 1) : shown;
}

void Hub::place_ranks() {
  std::vector<std::vector<Placement>> placements(1 + joined_.size());
  for (int i = 0; i < machine_.local_ranks; ++i) {
    const Host& host = machine_.hosts[static_cast<size_t>(i) % machine_.hosts.size()];
    placements[0].push_back({nullptr, host.name, host.name});
  }
  for (size_t m = 0; m < joined_.size(); ++m) {
    Joined& joined = *joined_[m];
    for (int i = 0; i < joined.local_ranks; ++i) {
      const std::string& host = joined.hosts[static_cast<size_t>(i) % joined.hosts.size()];
      placements[m + 1].push_back({&joined, host, unique_name(host, m)});
    }
  }
  for (size_t row = 0; placements_.size() < static_cast<size_t>(options_.ranks); ++row) {
    for (const auto& machine : placements) {
      if (row < machine.size()) placements_.push_back(machine[row]);
    }
  }
  if (options_.placement == "block") {
    std::stable_sort(placements_.begin(), placements_.end(),
                     [](const Placement& a, const Placement& b) { return a.name < b.name; });
  }
  for (const Placement& placement : placements_) hosts_by_rank_.push_back(placement.name);
}

std::string Hub::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on host " + hosts_by_rank_[static_cast<size_t>(rank)];
}

std::string Hub::text_of(int rank, const std::string& text) const {
  const bool is_local = placements_[static_cast<size_t>(rank)].machine == nullptr;
  return is_local ? text : tools::printable(text);
}

void Hub::start_ranks(Job job) {
  job.hosts = hosts_by_rank_;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const Placement& placement = placements_[static_cast<size_t>(rank)];
    job.rank = rank;
    job.host = placement.host;
    if (placement.machine == nullptr) {
      Job local = job;
      complete_job(machine_, &local);
      processes_.start(local);
    } else {
      send_to_rank({FrameType::kJob, static_cast<uint16_t>(rank), job});
    }
  }
}

void Hub::send_to_rank(const Frame& frame) {
  Joined* machine = placements_[frame.rank].machine;
  // The end of a rank or machine is reported where it is detected.
  if (machine == nullptr) {
    processes_.send(frame);
  } else {
    send_frame(machine->fd.get(), frame);
  }
}

std::vector<RankResult> Hub::run(Job job, const OnProgress& on_progress) {
  ranks_.assign(static_cast<size_t>(options_.ranks), RankState{});
  on_progress_ = on_progress;
  last_frame_ = steady_clock::now();
  start_ranks(std::move(job));
  while (!have_all_exited()) {
    if (error_ && steady_clock::now() > error_deadline_) break;
    if (!error_) check_deadlines();
    receive(wait_readable());
  }
  processes_.kill_all();
  if (error_) throw tools::Failure(error_->exit_code, error_->line);
  std::vector<RankResult> results;
  for (RankState& state : ranks_) results.push_back(std::move(*state.result));
  return results;
}

bool Hub::have_all_exited() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& state) { return state.has_exited; });
}

void Hub::check_deadlines() const {
  const auto now = steady_clock::now();
  if (is_interrupted()) throw Failure("interrupted");
  if (now > deadline_) {
    throw Failure("not finished after " + std::to_string(options_.timeout_s) + " s (--timeout)");
  }
  if (now > last_frame_ + std::chrono::seconds(options_.stall_timeout_s)) {
    throw Failure("no progress for " + std::to_string(options_.stall_timeout_s) +
                  " s (--stall-timeout)");
  }
}

std::vector<int> Hub::wait_readable() {
  std::vector<int> descriptors = processes_.descriptors();
  for (const auto& joined : joined_) descriptors.push_back(joined->fd.get());
  return poll_readable(descriptors);
}

void Hub::receive(const std::vector<int>& readable) {
  for (Frame& frame : processes_.receive(readable)) on_frame(std::move(frame));
  for (const auto& joined : joined_) {
    if (!contains(readable, joined->fd.get())) continue;
    const bool open = joined->reader.read_some(joined->fd.get());
    while (std::optional<Frame> frame = joined->reader.next()) {
      const bool is_its_own =
          frame->rank < placements_.size() && placements_[frame->rank].machine == joined.get();
      if (is_its_own) on_frame(std::move(*frame));
    }
    if (!open) {
      throw Failure("the machine of host " + tools::printable(joined->hosts.front()) +
                    " has closed its connection");
    }
  }
}

void Hub::on_frame(Frame frame) {
  RankState& state = ranks_[frame.rank];
  last_frame_ = steady_clock::now();
  switch (frame.type) {
    case FrameType::kGather:
      state.gather = std::move(frame.payload);
      return answer_gather();
    case FrameType::kProgress:
      if (frame.rank == 0) on_progress_(frame.payload);
      return;
    case FrameType::kResult:
      return on_result(frame);
    case FrameType::kError:
      return on_error(frame);
    case FrameType::kExited:
      return on_exit(frame);
    default:
      return fail({tools::kExitFailure, name_of(frame.rank) + ": unexpected message"});
  }
}

void Hub::on_result(const Frame& frame) {
  auto result = frame.payload.get<RankResult>();
  result.plugin_name = text_of(frame.rank, result.plugin_name);
  result.device_name = text_of(frame.rank, result.device_name);
  ranks_[frame.rank].result = std::move(result);
}

void Hub::on_exit(const Frame& frame) {
  RankState& state = ranks_[frame.rank];
  state.has_exited = true;
  if (!frame.payload.is_null()) {
    fail({tools::kExitFailure, name_of(frame.rank) + " ended early: " +
                                   text_of(frame.rank, frame.payload.get<std::string>())});
  } else if (!state.result) {
    fail({tools::kExitFailure, name_of(frame.rank) + " ended without a result"});
  }
}

void Hub::answer_gather() {
  nlohmann::json all = nlohmann::json::array();
  for (const RankState& state : ranks_) {
    if (!state.gather) return;
    all.push_back(*state.gather);
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].gather.reset();
    send_to_rank({FrameType::kGathered, static_cast<uint16_t>(rank), all});
  }
}

void Hub::on_error(const Frame& frame) {
  auto error = frame.payload.get<RankError>();
  // Another machine's launcher must not end this command as if all were well.
  if (!is_exit_code_of_failure(error.exit_code)) error.exit_code = tools::kExitFailure;
  error.line = name_of(frame.rank) + ": " + text_of(frame.rank, error.line);
  fail(error);
}

void Hub::fail(const RankError& error) {
  if (error_) return;
  error_ = error;
  error_deadline_ = steady_clock::now() + kAbortTimeout;
}

}  // namespace lyre::allreduce
