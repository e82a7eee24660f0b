#include "tests/sim/adapter/world.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "nccl_adapter/abi/net.h"
#include "tests/sim/adapter/lyre_api.h"

extern "C" {
extern const lyre::nccl_abi::NetV8 ncclNetPlugin_v8;
extern const lyre::nccl_abi::NetV9 ncclNetPlugin_v9;
extern const lyre::nccl_abi::NetV10 ncclNetPlugin_v10;
extern const lyre::nccl_abi::NetV11 ncclNetPlugin_v11;
extern const lyre::nccl_abi::NetV12 ncclNetPlugin_v12;
}

namespace lyre::adapter_sim {
namespace {

const void* table_of(int abi) {
  const void* const tables[] = {&ncclNetPlugin_v8, &ncclNetPlugin_v9, &ncclNetPlugin_v10,
                                &ncclNetPlugin_v11, &ncclNetPlugin_v12};
  return tables[abi - 8];
}

constexpr int64_t kProgressNs = 100 * kMs;
/// Connections that are closed linger for less.
constexpr int64_t kLingerNs = 200 * kSecond;
/// After the death of a rank, or the return of a daemon.
constexpr int64_t kDeathNsMax = 100 * kMs;
constexpr int64_t kResumeNsMax = 300 * kMs;

World* g_world = nullptr;

void take_line(nccl_abi::LogLevel level, unsigned long, const char*, int, const char* format, ...) {
  char line[1200];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (g_world != nullptr) g_world->on_line(level, line);
}

}  // namespace

World::World(const Plan& plan, bool prints)
    : plan_(plan),
      prints_(prints),
      rng_(plan.seed * 2 + 1),
      network_(plan.network, events_, plan.seed * 2 + 2),
      rdma_(plan_, events_),
      begin_ns_(events_.now_ns()),
      warnings_(plan.ranks.size(), 0),
      rate_check_(this) {
  g_world = this;
  set_system(this);
  set_network(&network_);
  rdma_.host_of_caller = [this] { return running_.empty() ? 0 : running_.back()->plan().host; };
  rdma_.process_of_caller = [this] { return process_id(); };
  rdma_.on_wrong = [this](const std::string& what) { expect(false, what); };
  network_.on_news = [this](lyre_context* context) {
    for (const auto& rank : ranks_) {
      if (process_id_of(*rank) == context->process) rank->wake();
    }
  };
  rdma_.on_news = [this](uint32_t process) {
    for (const auto& rank : ranks_) {
      if (process_id_of(*rank) == process) rank->wake();
    }
  };
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    ranks_.push_back(std::make_unique<Rank>(this, i, plan.ranks[i]));
  }
  for (size_t i = 0; i < plan.links.size(); ++i) {
    links_.push_back(std::make_unique<Link>());
    links_.back()->index = i;
    links_.back()->plan = plan.links[i];
    ranks_[plan.links[i].from]->add(links_.back().get(), true);
    ranks_[plan.links[i].to]->add(links_.back().get(), false);
  }
}

World::~World() {
  set_network(nullptr);
  set_system(nullptr);
  g_world = nullptr;
}

// ---- What happens to it ----

void World::schedule() {
  for (const Fault& fault : plan_.faults) {
    events_.at(begin_ns_ + fault.at_ns, [this, fault] { begin(fault); });
  }
  if (plan_.checks_resume) {
    const Fault& fault = plan_.faults.front();
    events_.at(begin_ns_ + fault.at_ns - 1, [this] { pairs_before_ = rail_pairs(); });
    events_.at(begin_ns_ + fault.at_ns + fault.lasts_ns + kResumeNsMax, [this] { check_resume(); });
  }
  if (plan_.checks_return && !plan_.faults.empty()) {
    events_.at(begin_ns_ + plan_.faults.front().at_ns - 1,
               [this] { pairs_before_ = rail_pairs(); });
  }
  if (plan_.checks_rails || plan_.checks_return) {
    events_.at(begin_ns_ + plan_.stays_ns - 1, [this] { check_rails(); });
  }
  if (plan_.checks_queue_pairs) {
    events_.at(begin_ns_ + plan_.stays_ns - 1,
               [this] { expect(rdma_.missing().empty(), rdma_.missing()); });
  }
  rate_check_.schedule();
  events_.after(kProgressNs, [this] { tick(); });
}

void World::tick() {
  for (const auto& rank : ranks_) rank->progress_alone();
  if (!is_over()) events_.after(kProgressNs, [this] { tick(); });
}

void World::begin(const Fault& fault) {
  note(std::string("fault: ") + name_of(fault.kind) + " " + std::to_string(fault.host) + "/" +
       std::to_string(fault.rail) + " for " + std::to_string(fault.lasts_ns / kMs) + " ms");
  using Kind = Fault::Kind;
  const int64_t end_ns = events_.now_ns() + fault.lasts_ns;
  switch (fault.kind) {
    case Kind::kReset:
    case Kind::kBlackhole:
    case Kind::kSlow:
      return begin_on_connection(fault);
    case Kind::kRail:
      network_.wires().set_rail({fault.host, fault.rail}, false);
      break;
    case Kind::kNeighbours:
      for (size_t i = 0; i < 3; ++i)
        network_.wires().set_rail({fault.host, (fault.rail + i) % plan_.network.rails}, false);
      break;
    case Kind::kCut:
      return network_.wires().cut({fault.host, fault.rail}, {fault.peer, fault.peer_rail}, end_ns);
    case Kind::kHostDies:
      for (const auto& rank : ranks_) {
        if (rank->plan().host == fault.host) rank->pause_until(INT64_MAX / 2);
      }
      rdma_.kill_host(fault.host);
      [[fallthrough]];
    case Kind::kDaemonDies:
      network_.kill_daemon(fault.host);
      break;
    case Kind::kDaemonStops:
      network_.stop_daemon(fault.host);
      break;
    case Kind::kDaemonPauses:
      network_.pause_daemon(fault.host);
      break;
    case Kind::kRankPauses:
      return ranks_[fault.host]->pause_until(end_ns);
    case Kind::kRankDies:
      return kill_rank(ranks_[fault.host].get());
    case Kind::kRankAborts:
      return ranks_[fault.host]->abort();
    default:
      return rdma_.begin(fault);
  }
  events_.at(end_ns, [this, fault] { end(fault); });
}

void World::begin_on_connection(const Fault& fault) {
  const std::vector<Connection*> open = network_.established();
  if (open.empty()) return;
  Connection& chosen = *open[rng_.below(open.size())];
  if (fault.kind == Fault::Kind::kReset) {
    network_.tcp().reset(chosen);
  } else if (fault.kind == Fault::Kind::kBlackhole) {
    chosen.blackholed_until_ns = events_.now_ns() + fault.lasts_ns;
  } else {
    chosen.slowness = 100;
  }
}

void World::end(const Fault& fault) {
  note(std::string("over: ") + name_of(fault.kind));
  using Kind = Fault::Kind;
  switch (fault.kind) {
    case Kind::kRail:
      return network_.wires().set_rail({fault.host, fault.rail}, true);
    case Kind::kNeighbours:
      for (size_t i = 0; i < plan_.network.rails; ++i)
        network_.wires().set_rail({fault.host, i}, true);
      return;
    case Kind::kDaemonDies:
    case Kind::kDaemonStops:
      return network_.start_daemon(fault.host);
    case Kind::kDaemonPauses:
      return network_.resume_daemon(fault.host);
    default:
      return;
  }
}

void World::kill_rank(Rank* rank) {
  if (rank->kill()) {
    died_ns_ = events_.now_ns();
    rdma_.kill_process(process_id_of(*rank));
    if (plan_.checks_death) events_.after(kDeathNsMax, [this] { check_death(); });
    return;
  }
  events_.after(kMs, [this, rank] { kill_rank(rank); });
}

// ---- Running ----

bool World::is_over() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return rank->is_over() || rank->is_dead() || rank->is_paused_for_good();
  });
}

bool World::is_job_broken() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return rank->is_dead() || rank->is_paused_for_good() || rank->has_aborted() ||
           (rank->is_over() && rank->result() != Result::kSuccess);
  });
}

Outcome World::run() {
  schedule();
  const int64_t end_ns = begin_ns_ + plan_.bound_ns;
  while (!is_over() && outcome_.wrong.empty() && !events_.is_empty() &&
         events_.next_ns() <= end_ns) {
    events_.run_next();
  }
  outcome_.span_ns = events_.now_ns() - begin_ns_;
  judge();
  for (const auto& rank : ranks_) rank->stop();
  for (const auto& rank : ranks_) rank->clean_up();
  for (const auto& rank : ranks_) {
    for (const auto& end : rank->ends()) end->check_slots();
  }
  if (outcome_.wrong.empty()) check_nothing_left();
  outcome_.events = events_.run_count();
  outcome_.rdma_bytes = rdma_.delivered_bytes();
  outcome_.rdma_written_bytes = rdma_.writes().bytes;
  outcome_.rdma_late = rdma_.writes().late;
  outcome_.rdma_broken = rdma_.broken();
  if (outcome_.rdma_bytes > 0) mix(outcome_.rdma_bytes);
  mix(network_.tcp().packets());
  return outcome_;
}

void World::judge() {
  for (const auto& rank : ranks_) judge_rank(*rank);
  check_dials();
  if (!outcome_.wrong.empty() && prints_) {
    for (const auto& rank : ranks_) note(rank->describe());
  }
}

void World::judge_rank(const Rank& rank) {
  if (rank.is_dead() || rank.is_paused_for_good()) return;
  expect(rank.is_over(), "not over in time: " + rank.describe());
  if (rank.has_aborted()) return;
  if (plan_.must_complete) {
    expect(rank.result() == Result::kSuccess, "failed: " + rank.describe());
  }
  if (rank.result() == Result::kSuccess) return;
  ++outcome_.failed_ranks;
  const bool is_stated = rank.result() == Result::kRemoteError ||
                         rank.result() == Result::kSystemError ||
                         rank.result() == Result::kInvalidUsage;
  expect(is_stated, "a code that says nothing: " + rank.describe());
  expect(warnings_[rank.index()] > rank.refused_groups(),
         "failed without a line: " + rank.describe());
}

std::vector<std::string> World::rail_pairs() {
  std::vector<std::string> pairs;
  for (const Connection* connection : network_.established()) {
    const End& from = connection->ends[0];
    const End& to = connection->ends[1];
    pairs.push_back(std::to_string(from.host->index) + "/" + std::to_string(from.rail) + " > " +
                    std::to_string(to.host->index) + "/" + std::to_string(to.rail));
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

void World::check_rails() {
  if (!outcome_.wrong.empty()) return;
  const std::vector<std::string> now = rail_pairs();
  if (plan_.checks_return) {
    std::string text;
    for (const std::string& pair : pairs_before_) text += " " + pair;
    text += " before, now";
    for (const std::string& pair : now) text += " " + pair;
    expect(now == pairs_before_, "streams did not return to their rails:" + text);
  }
  if (!plan_.checks_rails || plan_.uses_all_rails) return;
  for (const Connection* connection : network_.established()) {
    const End& from = connection->ends[0];
    const End& to = connection->ends[1];
    const bool is_chosen =
        std::any_of(plan_.links.begin(), plan_.links.end(), [&](const LinkPlan& link) {
          return plan_.ranks[link.from].host == from.host->index &&
                 plan_.ranks[link.to].host == to.host->index &&
                 static_cast<size_t>(link.from_device) == from.rail &&
                 static_cast<size_t>(link.to_device) == to.rail;
        });
    expect(is_chosen, "a stream is not where NCCL wanted it");
  }
}

void World::check_dials() {
  if (!plan_.checks_dials) return;
  const size_t made = network_.connections().size();
  const size_t planned = plan_.links.size() * static_cast<size_t>(plan_.streams);
  expect(made == planned, std::to_string(made) + " connections were made for " +
                              std::to_string(planned) + " streams");
}

// A rank that was connected and waits cannot do so any longer.
void World::check_death() {
  for (const auto& rank : ranks_) {
    if (rank->is_dead() || rank->is_over()) continue;
    for (const auto& end : rank->ends()) {
      const LinkPlan& link = end->link().plan;
      const Rank& peer = *ranks_[end->is_sender() ? link.to : link.from];
      if (!peer.is_dead() || !end->is_waiting()) continue;
      expect(false, "waits for a dead rank: " + rank->describe());
    }
  }
}

void World::check_resume() {
  const std::vector<std::string> now = rail_pairs();
  // An idle rank polls ten times a second, and a handshake takes several polls.
  const bool are_all_waiting = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return std::any_of(rank->ends().begin(), rank->ends().end(),
                       [](const auto& end) { return end->is_waiting(); });
  });
  expect(!are_all_waiting || now.size() >= pairs_before_.size(),
         "streams are missing: " + std::to_string(now.size()) + " of " +
             std::to_string(pairs_before_.size()));
}

void World::check_nothing_left() {
  expect(contexts().empty(), "a context is left");
  expect(rdma_.open_contexts() == 0, "an RDMA device is left open");
  events_.run_until(events_.now_ns() + kLingerNs);
  expect(network_.open_ends() == 0,
         "connections outlive all processes: " + std::to_string(network_.open_ends()));
}

// ---- Services ----

void World::expect(bool holds, const std::string& what) {
  if (holds || !outcome_.wrong.empty()) return;
  outcome_.wrong = what;
  note("WRONG: " + what);
}

void World::note(const std::string& what) {
  for (const char c : what)
    outcome_.trace = (outcome_.trace ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  mix(static_cast<uint64_t>(events_.now_ns()));
  print(what);
}

void World::print(const std::string& what) const {
  if (!prints_) return;
  std::printf("%12.6f  %s\n", static_cast<double>(events_.now_ns() - begin_ns_) * 1e-9,
              what.c_str());
}

void World::mix(uint64_t value) {
  outcome_.trace = (outcome_.trace ^ value) * 0x9e3779b97f4a7c15u;
  outcome_.trace ^= outcome_.trace >> 29;
}

void World::count_message(uint64_t bytes) {
  ++outcome_.messages;
  outcome_.last_message_ns = events_.now_ns() - begin_ns_;
  outcome_.bytes += bytes;
}

void World::on_line(nccl_abi::LogLevel level, const char* line) {
  if (level == nccl_abi::LogLevel::kWarn && !running_.empty())
    ++warnings_[running_.back()->index()];
  // Not in the trace: some lines are said only once in a process.
  print((running_.empty() ? "-" : std::to_string(running_.back()->index())) + ": " + line);
}

std::unique_ptr<nccl_emulator::NetPlugin> World::load_plugin(const Rank& rank) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("LYRE_SOCKET", "sim/" + std::to_string(rank.plan().host));
  set("LYRE_TELEMETRY_DIR", "none");
  set("NCCL_NET_PLUGIN_REF_COUNT", "1");  // as docs/user/nccl.md says
  set("LYRE_VERBS", "auto");
  set("LYRE_VERBS_MODE", std::to_string(rank.plan().verbs_mode));
  set("LYRE_RAILS", plan_.uses_all_rails ? "all" : "own");
  set("LYRE_PEER_TIMEOUT_SECONDS", std::to_string(plan_.peer_timeout_s));
  set("LYRE_RESUME_SECONDS", std::to_string(plan_.resume_s));
  if (plan_.streams > 0) {
    set("LYRE_STREAMS", std::to_string(plan_.streams));
  } else {
    ::unsetenv("LYRE_STREAMS");
  }
  const int abi = rank.plan().abi;
  return nccl_emulator::use_net_table(abi, table_of(abi), take_line);
}

bool World::enter(Rank* rank) {
  running_.push_back(rank);
  return running_.size() > 1;
}

void World::exit() { running_.pop_back(); }

uint32_t World::process_id_of(const Rank& rank) const {
  return 1000 + static_cast<uint32_t>(rank.index());
}

void World::sleep(int64_t ns) {
  Rank* rank = running_.empty() ? nullptr : running_.back();
  int64_t until_ns = events_.now_ns() + ns;
  // A short sleep may last until something happens, or a millisecond.
  if (ns < kMs && !events_.is_empty()) {
    until_ns = std::clamp(events_.next_ns(), until_ns, events_.now_ns() + kMs);
  }
  events_.run_until(until_ns);
  while (rank != nullptr && rank->is_paused() && !rank->is_paused_for_good()) {
    events_.run_until(events_.now_ns() + kMs);
  }
}

nccl_adapter::Nonce World::nonce() {
  nccl_adapter::Nonce nonce{};
  Rng chance(plan_.seed ^ (++nonces_ * 0x9e3779b97f4a7c15u));
  for (uint8_t& byte : nonce) byte = static_cast<uint8_t>(chance.next());
  return nonce;
}

std::string World::host_name() {
  return "host" + std::to_string(running_.empty() ? 0 : running_.back()->plan().host);
}

uint32_t World::process_id() { return running_.empty() ? 0 : process_id_of(*running_.back()); }

void World::set_progress(const void* thread, const std::function<void()>* work) {
  if (!running_.empty()) running_.back()->set_progress(thread, work);
}

}  // namespace lyre::adapter_sim
