#include "tests/sim/adapter/rank.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "nccl_adapter/plugin/plugin.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/sim/adapter/world.h"

namespace lyre::adapter_sim {

using nccl_emulator::Message;
using nccl_emulator::NetPlugin;
using nccl_emulator::NetProperties;

namespace {

constexpr uint8_t kBeforeReceive = 0xa5;
constexpr uint8_t kUnwritten = 0xc3;
constexpr int64_t kIdleTurnNsMax = 5 * kMs;
/// A rank without a daemon gives up after so many polls.
constexpr uint64_t kStartsMax = 10'000;

size_t slot_bytes(const LinkPlan& plan) {
  size_t bytes = 1;
  for (const MessagePlan& message : plan.messages) {
    bytes = std::max<size_t>({bytes, message.bytes, message.posted_bytes});
  }
  return bytes + 64;
}

}  // namespace

// NCCL's tag is the sending rank; a comm that serves one pair of ranks may ignore it.
Message LinkEnd::message_of(void* data, uint32_t bytes) const {
  return {.data = data,
          .bytes = bytes,
          .tag = static_cast<int>(link_->plan.from),
          .mhandle = registration_};
}

uint8_t pattern(uint64_t link, uint64_t message, uint64_t offset) {
  const uint64_t x = (link * 0x9e3779b97f4a7c15u) ^ (message * 0xbf58476d1ce4e5b9u) ^ offset;
  return static_cast<uint8_t>((x ^ (x >> 8) ^ (x >> 17)) | 1);
}

// ---- One end of a link ----

LinkEnd::LinkEnd(World* world, Rank* rank, Link* link, bool is_sender)
    : world_(world),
      rank_(rank),
      link_(link),
      is_sender_(is_sender),
      slot_bytes_(slot_bytes(link->plan)),
      owned_(new uint8_t[slot_bytes_ * link->plan.in_flight_max]),
      memory_(owned_.get()),
      is_slot_free_(link->plan.in_flight_max, true) {
  std::memset(memory_, kUnwritten, slot_bytes_ * link->plan.in_flight_max);
}

std::string LinkEnd::describe() const {
  return "link " + std::to_string(link_->index) + (is_sender_ ? " (sends)" : " (receives)") +
         ": posted " + std::to_string(posted_) + ", done " + std::to_string(finished_) + " of " +
         std::to_string(link_->plan.messages.size());
}

int64_t LinkEnd::next_ns() const {
  if (state_ == State::kStart) return is_sender_ ? link_->handle_ns : 0;
  if (state_ != State::kRunning || posted_ == link_->plan.messages.size()) return INT64_MAX;
  return next_post_ns_;
}

Result LinkEnd::turn() {
  if (state_ == State::kStart || state_ == State::kOpening) {
    if (const Result result = open(); result != Result::kSuccess) return result;
  }
  if (state_ != State::kRunning) return Result::kSuccess;
  if (const Result result = post(); result != Result::kSuccess) return result;
  return test();
}

Result LinkEnd::open() {
  NetPlugin& plugin = rank_->plugin();
  const LinkPlan& plan = link_->plan;
  if (state_ == State::kStart && !is_sender_) {
    const Result result = plugin.listen(plan.to_device, link_->handle, &listen_comm_);
    if (result != Result::kSuccess) return result;
    link_->handle_ns = world_->events().now_ns() + plan.handle_ns;
    state_ = State::kOpening;
  }
  if (state_ == State::kStart) {
    if (world_->events().now_ns() < link_->handle_ns) return Result::kSuccess;
    state_ = State::kOpening;
  }
  const Result result = is_sender_ ? plugin.connect(plan.from_device, link_->handle, &comm_)
                                   : plugin.accept(listen_comm_, &comm_);
  if (result != Result::kSuccess || comm_ == nullptr) return result;
  return on_open();
}

Result LinkEnd::on_open() {
  if (listen_comm_ != nullptr) {
    rank_->plugin().close_listen(listen_comm_);
    listen_comm_ = nullptr;
  }
  state_ = State::kRunning;
  await_next();
  if (link_->plan.tries_group && !is_sender_) try_group();
  if (!link_->plan.is_registered) return Result::kSuccess;
  const size_t bytes = slot_bytes_ * link_->plan.in_flight_max;
  return rank_->plugin().reg_mr(comm_, memory_, bytes, nccl_abi::kPtrHost, &registration_);
}

// The plugin says that a request has one buffer: it refuses more, and the comm goes on.
void LinkEnd::try_group() {
  const Message one{.data = memory_, .bytes = 1, .tag = 1};
  const Message two{.data = memory_ + 1, .bytes = 1, .tag = 2};
  void* request = this;
  const Result result = rank_->plugin().irecv_group(comm_, std::array{one, two}, &request);
  world_->expect(result == Result::kInvalidArgument && request == nullptr,
                 "a receive of two buffers was not refused: " + describe());
  rank_->note_refused_group();
}

void LinkEnd::await_next() {
  if (posted_ == link_->plan.messages.size()) return;
  const MessagePlan& next = message(posted_);
  const int64_t at_ns = world_->begin_ns() + (is_sender_ ? next.send_at_ns : next.receive_at_ns);
  const int64_t pause_ns = is_sender_ ? next.send_pause_ns : next.receive_pause_ns;
  next_post_ns_ = std::max(world_->events().now_ns() + pause_ns, at_ns);
}

Result LinkEnd::post() {
  while (posted_ < link_->plan.messages.size() && world_->events().now_ns() >= next_post_ns_) {
    const auto free = std::find(is_slot_free_.begin(), is_slot_free_.end(), true);
    if (free == is_slot_free_.end()) return Result::kSuccess;
    const auto index = static_cast<size_t>(free - is_slot_free_.begin());
    const MessagePlan& plan = message(posted_);
    uint8_t* data = slot(index);
    world_->expect(std::all_of(data, data + slot_bytes_, [](uint8_t b) { return b == kUnwritten; }),
                   "memory was written after its request was done: " + describe());
    void* request = nullptr;
    Result result;
    if (is_sender_) {
      for (uint32_t i = 0; i < plan.bytes; ++i) data[i] = pattern(link_->index, posted_, i);
      result = rank_->plugin().isend(comm_, message_of(data, plan.bytes), &request);
    } else {
      std::memset(data, kBeforeReceive, slot_bytes_);
      if (rank_->plan().abi >= nccl_emulator::kFirstAbiWithOptionalCompletion) {
        request = reinterpret_cast<void*>(nccl_abi::kOptionalRecvCompletion);
      }
      result = rank_->plugin().irecv(comm_, message_of(data, plan.posted_bytes), &request);
    }
    if (request == nullptr) {
      std::memset(data, kUnwritten, slot_bytes_);
      return result;
    }
    if (result != Result::kSuccess) return result;
    *free = false;
    outstanding_.push_back({request, posted_++, index});
    await_next();
  }
  return Result::kSuccess;
}

Result LinkEnd::test() {
  while (!outstanding_.empty()) {
    const size_t index =
        link_->plan.tests_any_request ? world_->rng().below(outstanding_.size()) : 0;
    bool is_done = false;
    const uint64_t number = outstanding_[index].message;
    if (const Result result = test_one(index, false, &is_done); result != Result::kSuccess) {
      return result;
    }
    if (!is_done) return Result::kSuccess;
    // Messages are done in order: all that were posted before this one are done, too.
    while (!outstanding_.empty() && outstanding_.front().message < number) {
      if (const Result result = test_one(0, true, &is_done); result != Result::kSuccess) {
        return result;
      }
      if (!is_done) return Result::kSuccess;
    }
  }
  return Result::kSuccess;
}

Result LinkEnd::test_one(size_t index, bool must_be_done, bool* is_done) {
  const Posted posted = outstanding_[index];
  int done = 0;
  int size = -1;
  const Result result = rank_->plugin().test(posted.request, &done, &size);
  *is_done = done != 0;
  if (must_be_done) {
    world_->expect(done != 0, "a later request was done before an earlier one: " + describe());
  }
  if (done == 0) return result;
  outstanding_.erase(outstanding_.begin() + static_cast<ptrdiff_t>(index));
  ++finished_;
  world_->mix(posted.message);
  is_sender_ ? on_sent(posted, size) : on_received(posted, size);
  std::memset(slot(posted.slot), kUnwritten, slot_bytes_);
  is_slot_free_[posted.slot] = true;
  return Result::kSuccess;
}

void LinkEnd::on_sent(const Posted& posted, int size) {
  world_->note_done();
  world_->expect(static_cast<uint32_t>(size) == message(posted.message).bytes,
                 "a send of another size is done: " + describe());
}

void LinkEnd::on_received(const Posted& posted, int size) {
  const MessagePlan& plan = message(posted.message);
  world_->expect(static_cast<uint32_t>(size) == plan.bytes,
                 "a receive is done with " + std::to_string(size) + " bytes of " +
                     std::to_string(plan.bytes) + ": " + describe());
  const uint8_t* data = slot(posted.slot);
  for (uint32_t i = 0; i < plan.bytes; ++i) {
    if (data[i] == pattern(link_->index, posted.message, i)) continue;
    return world_->expect(false, "byte " + std::to_string(i) + " of message " +
                                     std::to_string(posted.message) + " is wrong: " + describe());
  }
  for (size_t i = plan.bytes; i < slot_bytes_; ++i) {
    if (data[i] == kBeforeReceive) continue;
    return world_->expect(false, "bytes behind message " + std::to_string(posted.message) +
                                     " were written: " + describe());
  }
  world_->count_message(plan.bytes);
}

void LinkEnd::check_slots() {
  for (size_t i = 0; i < is_slot_free_.size(); ++i) {
    if (!is_slot_free_[i]) continue;
    const uint8_t* data = slot(i);
    world_->expect(std::all_of(data, data + slot_bytes_, [](uint8_t b) { return b == kUnwritten; }),
                   "memory was written after its request was done: " + describe());
  }
}

// In NCCL's order: memory first, then the comm. What is deregistered may be gone.
void LinkEnd::close() {
  NetPlugin& plugin = rank_->plugin();
  if (comm_ != nullptr && registration_ != nullptr) {
    plugin.dereg_mr(comm_, registration_);
    std::memset(memory_, kUnwritten, slot_bytes_ * link_->plan.in_flight_max);
    is_slot_free_.assign(is_slot_free_.size(), true);
  }
  if (comm_ != nullptr) is_sender_ ? plugin.close_send(comm_) : plugin.close_recv(comm_);
  if (listen_comm_ != nullptr) plugin.close_listen(listen_comm_);
  comm_ = listen_comm_ = registration_ = nullptr;
  state_ = State::kDone;
}

// ---- A process ----

Rank::Rank(World* world, size_t index, const RankPlan& plan)
    : world_(world), index_(index), plan_(plan) {
  schedule(world->events().now_ns() + plan.start_ns);
}

void Rank::add(Link* link, bool is_sender) {
  ends_.push_back(std::make_unique<LinkEnd>(world_, this, link, is_sender));
}

bool Rank::is_paused() const { return world_->events().now_ns() < paused_until_ns_; }

std::string Rank::describe() const {
  std::string text = "rank " + std::to_string(index_) + " (" + result_name(result_) +
                     (is_over_ ? ", over" : "") + (is_dead_ ? ", dead" : "") + ")";
  for (const auto& end : ends_) text += "; " + end->describe();
  return text;
}

void Rank::schedule(int64_t ns) {
  turn_at_ns_ = ns;
  const uint64_t number = ++turn_number_;
  world_->events().at(ns, [this, number] {
    if (number == turn_number_) turn();
  });
}

void Rank::wake() {
  const int64_t soon_ns =
      world_->events().now_ns() + static_cast<int64_t>(world_->rng().below(10'000));
  const bool is_busy = is_aborting_ || std::any_of(ends_.begin(), ends_.end(),
                                                   [](const auto& end) { return end->is_busy(); });
  if (!is_busy || is_over_ || is_dead_ || calls_ > 0 || soon_ns >= turn_at_ns_) return;
  idle_ns_ = 0;
  schedule(soon_ns);
}

void Rank::turn() {
  turn_at_ns_ = INT64_MAX;
  if (is_over_ || is_dead_ || is_stopped_) return;
  if (is_paused()) return schedule(paused_until_ns_);
  if (calls_ > 0) return schedule(world_->events().now_ns() + kMs);
  is_within_call_ = world_->enter(this);
  ++calls_;
  run();
  --calls_;
  world_->exit();
  if (!is_over_) after_turn();
}

void Rank::after_turn() {
  const int64_t now_ns = world_->events().now_ns();
  int64_t next_ns = INT64_MAX;
  bool is_busy = !is_attached_;
  for (const auto& end : ends_) {
    is_busy = is_busy || end->is_busy();
    next_ns = std::min(next_ns, end->next_ns());
  }
  // An idle rank polls less and less often: it is woken when something happens.
  idle_ns_ = std::min(std::max(plan_.turn_ns, idle_ns_ * 2), kIdleTurnNsMax);
  const int64_t look_ns = now_ns + (is_busy ? idle_ns_ : kSecond / 2);
  if (next_ns == INT64_MAX || next_ns <= now_ns) next_ns = look_ns;
  schedule(is_busy ? std::min(look_ns, next_ns) : next_ns);
}

bool Rank::start() {
  // An init while the daemon stands still would block all ranks, which share a process here.
  if (world_->network().host(plan_.host).daemon != Host::Daemon::kRunning) return false;
  plugin_ = world_->load_plugin(*this);
  is_attached_ = plugin_->init(index_) == Result::kSuccess;
  if (is_attached_) check_properties();
  return is_attached_;
}

void Rank::check_properties() {
  int count = 0;
  plugin_->devices(&count);
  world_->expect(count == static_cast<int>(world_->plan().network.rails), "devices are missing");
  for (int device = 0; device < count; ++device) {
    NetProperties properties;
    const Result result = plugin_->get_properties(device, &properties);
    world_->expect(result == Result::kSuccess && properties.recvs_max == 1, "wrong properties");
  }
}

void Rank::run() {
  if (!is_attached_ && !start()) {
    // NCCL would go on without the plugin, or not at all.
    is_aborting_ = is_over_ = world_->is_job_broken() || turn_number_ > kStartsMax;
    return;
  }
  const int64_t now_ns = world_->events().now_ns();
  // The job's launcher ends those whose rendezvous failed with another rank.
  const bool is_waiting = std::any_of(ends_.begin(), ends_.end(),
                                      [](const auto& end) { return end->waits_for_rendezvous(); });
  if (is_waiting && world_->is_job_broken()) is_aborting_ = true;
  if (is_aborting_ || result_ != Result::kSuccess) return leave_if_alone();
  bool is_finished = true;
  for (const auto& end : ends_) {
    const Result result = end->turn();
    if (result != Result::kSuccess) {
      result_ = result;
      world_->note("rank " + std::to_string(index_) + ": " + result_name(result) + ", " +
                   end->describe());
      return leave_if_alone();
    }
    is_finished = is_finished && end->is_idle();
  }
  if (!is_finished) return;
  if (finished_ns_ == 0) finished_ns_ = now_ns;
  if (now_ns < world_->stays_until_ns() || now_ns < finished_ns_ + plan_.close_pause_ns) return;
  leave_if_alone();
}

// A call that sleeps goes on only after all turns that began in its sleep, and the end of a process
// may take seconds: the other rank would seem to stand still, which its peers count against it.
void Rank::leave_if_alone() {
  if (!is_within_call_) leave();
}

void Rank::leave() {
  world_->note("rank " + std::to_string(index_) + " leaves");
  const bool leaves_open = plan_.leaves_comms_open && has_finalize();
  const bool closes_later = leaves_open && result_ == Result::kSuccess && !is_aborting_;
  for (const auto& end : ends_) {
    end->check_slots();
    if (!closes_later) end->close();
  }
  plugin_->finalize();
  // As a communicator does that shares the comms of the one that was finalized.
  for (const auto& end : ends_) end->close();
  is_attached_ = !has_finalize();  // else the process goes on, and its attachment with it
  is_over_ = true;
  over_ns_ = world_->events().now_ns();
  world_->mix(static_cast<uint64_t>(result_));
  world_->note("rank " + std::to_string(index_) + " is over: " + result_name(result_));
}

bool Rank::kill() {
  if (is_over_) return true;
  if (calls_ > 0) return false;
  is_dead_ = true;
  work_ = nullptr;
  for (lyre_context* context : contexts()) {
    if (context->process == world_->process_id_of(*this)) {
      world_->network().kill_client(context);
    }
  }
  return true;
}

void Rank::clean_up() {
  if (!is_attached_) return;
  world_->enter(this);
  ++calls_;
  for (const auto& end : ends_) end->close();
  has_finalize() ? plugin_->finalize() : nccl_adapter::finalize(nccl_adapter::process_context());
  --calls_;
  world_->exit();
  is_attached_ = false;
}

void Rank::set_progress(const void* thread, const std::function<void()>* work) {
  if (work == nullptr && thread != thread_) return;
  thread_ = thread;
  work_ = work;
}

void Rank::progress_alone() {
  if (work_ == nullptr || is_dead_ || is_stopped_ || calls_ > 0 || is_paused()) return;
  world_->enter(this);
  ++calls_;
  (*work_)();
  --calls_;
  world_->exit();
}

}  // namespace lyre::adapter_sim
