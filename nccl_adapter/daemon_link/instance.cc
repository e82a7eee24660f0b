#include "nccl_adapter/daemon_link/instance.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "nccl_adapter/comm/close_patience.h"
#include "nccl_adapter/comm/host_patience.h"
#include "nccl_adapter/comm/recv_comm.h"
#include "nccl_adapter/comm/send_comm.h"
#include "nccl_adapter/daemon_link/flows.h"
#include "nccl_adapter/daemon_link/system.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/bytes.h"
#include "nccl_adapter/transport/rails.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

namespace {

constexpr uint32_t kIdleLooksPerClockRead = 8;
/// Of so many calls in a row that find events one does what is due by the clock.
constexpr uint32_t kBusyCallsMax = 64;
constexpr int64_t kShortPauseNs = 1'000'000;
/// What the library waits at most while it attaches and listens. A daemon that does not answer uses
/// up LYRE_RESUME_SECONDS meanwhile.
constexpr int64_t kFindNsMax = 3 * int64_t{kFindPatienceMs} * 1'000'000;
/// Each wait of a finalize for hosts for which another finalize has waited in vain.
constexpr int kVanishedDrainMs = static_cast<int>(ClosePatience::kFollowerGoodbyeNs / 1'000'000);

// One flow gets at most a share of a fast port in most clouds, and at most one worker's time in the
// daemon.
StreamCount make_stream_count(const Settings& settings, const Attachment& attachment,
                              const lyre_port& port) {
  if (settings.streams > 0) {
    const auto given = static_cast<size_t>(settings.streams);
    return StreamCount(given, given);
  }
  const uint32_t flows = flows_that_fill(port.speed_mbps, port.flow_mbps);
  const auto workers = static_cast<uint32_t>(std::max(attachment.workers(), 1));
  const size_t rails = settings.uses_all_rails ? attachment.ports().size() : 1;
  const size_t start = std::clamp<size_t>(std::max(flows, workers) * rails, 1, kStreamsAutoMax);
  return StreamCount(start, kStreamsLearnedMax);
}

// The handle has the note of a connect that cannot go on.
void say_gone(const Handle& handle) {
  log_warn(
      "cannot connect to host %s, process %u: what this connect began was closed: its daemon was "
      "given up (LYRE_RESUME_SECONDS), or connect was not called for %lld minutes",
      handle.host.c_str(), handle.pid, static_cast<long long>(kConnectAbandonedMinutes));
}

// Its peer may wait for what this side said last.
bool is_unheard(Comm& comm) {
  return comm.goodbye().is_begun() && !comm.has_failed() && !comm.goodbye().is_heard();
}

}  // namespace

std::unique_ptr<Instance> Instance::open(const Settings& settings, uint64_t communicator,
                                         int* failure) {
  std::unique_ptr<Instance> instance(new Instance(settings, communicator));
  instance->attachment_ = Attachment::open(instance->settings_, failure);
  if (instance->attachment_ == nullptr) return nullptr;
  for (const lyre_port& port : instance->ports()) {
    instance->stream_counts_.push_back(
        make_stream_count(instance->settings_, *instance->attachment_, port));
  }
  instance->progress_thread_ =
      std::make_unique<ProgressThread>([own = instance.get()] { own->progress_if_idle(); });
  return instance;
}

Instance::Instance(const Settings& settings, uint64_t communicator)
    : Environment(settings, host_name(), process_id(), communicator, monotonic_ns()),
      shortages_(nccl_adapter::shortage().declared()),
      random_(get_le<uint64_t>(make_nonce(), 0)),
      telemetry_(settings.telemetry_directory, host_, socket_path_text(settings), random_),
      receivers_(this, this),
      connecting_(random_) {
  std::string why;  // which plugin/ says when it opens an instance
  const VerbsApi* api = settings.verbs == VerbsUse::kOff ? nullptr : load_verbs(&why);
  if (api == nullptr) return;
  devices_ = std::make_unique<VerbsDevices>(*api, settings);
  verbs_ = devices_.get();
}

// A comm that is still open ends as close() would end it: what its peer has to be told about that
// end is kept until the peer has asked or the time is over.
Instance::~Instance() {
  progress_thread_.reset();
  if (attachment_ == nullptr) return;
  std::set<std::string> hosts = unheard_hosts_;
  for (auto& [number, comm] : comms_) {
    comm->begin_close();
    if (is_unheard(*comm)) hosts.insert(comm->peer().host);
  }
  const bool have_vanished = host_patience().have_vanished(hosts, monotonic_ns());
  const int most_ms = have_vanished ? kVanishedDrainMs : kFinalizeDrainMs;
  // Also for comms closed before: a peer that misses our last grant takes its send for lost.
  bool is_in_vain = is_attached() && lyre_drain(context(), most_ms) == LYRE_E_AGAIN;
  // Nobody has read what came meanwhile: perhaps that the peer ended, and waits for nothing.
  for (auto& [number, comm] : comms_) {
    if (!comm->has_failed() && !comm->goodbye().is_acknowledged()) comm->pump();
  }
  while (!comms_.empty()) close(comms_.begin()->second.get());
  await_last_words(int64_t{most_ms} * 1'000'000);
  is_in_vain = is_in_vain || receivers_.is_any_untold();
  // While this host's daemon is away, nothing is known of the others, and a brief wait is no proof.
  // Of several hosts some may have answered meanwhile.
  const bool is_one_host = unheard_hosts_.size() == 1;
  if (is_attached() && is_in_vain && is_one_host && !have_vanished) {
    host_patience().on_finalized_in_vain(*unheard_hosts_.begin(), monotonic_ns());
  }
  if (is_attached()) lyre_drain(context(), std::min(most_ms, kAnswerDrainMs));
  comms_.clear();  // those that came meanwhile
  acceptor_.reset();
}

// NCCL closes no listen comm that it had when it aborted, and one of a dead instance is of no use.
bool Instance::is_idle() const {
  return given_out_.empty() && (is_dead() || receivers_.listening() == 0);
}

bool Instance::finalize() {
  is_finalized_ = true;
  was_unused_ = given_out_.empty();
  return was_unused_;
}

bool Instance::is_over() const {
  if (was_unused_) return true;
  return is_finalized_ && given_out_.empty() && receivers_.listening() == 0;
}

Result Instance::check_device(int dev) const {
  if (dev >= 0 && static_cast<size_t>(dev) < ports().size()) return Result::kSuccess;
  log_warn("device %d does not exist: the daemon has %zu ports", dev, ports().size());
  return Result::kInvalidArgument;
}

// listen() cannot be retried: NCCL calls it once. The daemon may be lost while it is asked.
Result Instance::await_acceptor() {
  std::optional<int64_t> lost_ns;
  for (;;) {
    while (progress() == Result::kSuccess && !is_attached()) sleep_ns(kShortPauseNs);
    if (daemon_ == Daemon::kDead) return Result::kSystemError;
    if (open_acceptor()) return Result::kSuccess;
    if (!lost_ns) lost_ns = monotonic_ns();
    const bool may_return = monotonic_ns() - *lost_ns < settings_.resume_s * kNsPerSecond;
    if (is_attached() || !may_return) return Result::kSystemError;
  }
}

bool Instance::open_acceptor() {
  if (acceptor_ == nullptr) acceptor_ = Acceptor::open(this, &receivers_, &telemetry_);
  return acceptor_ != nullptr;
}

Result Instance::listen(int dev, HandleBytes bytes, ListenComm** out) {
  *out = nullptr;
  if (const Result result = check_device(dev); result != Result::kSuccess) return result;
  if (const Result result = await_acceptor(); result != Result::kSuccess) return result;
  const size_t own = static_cast<size_t>(dev);
  const auto others = further_addresses(ports(), own);
  const Handle handle{.address = address_of(ports()[own]),
                      .others = others,
                      .places = places_of(ports(), own, others),
                      .port = acceptor_->port(),
                      .pid = pid_,
                      .nonce = make_nonce(),
                      .host = host_};
  encode(handle, bytes);
  *out = receivers_.listen(handle.nonce);
  return Result::kSuccess;
}

void Instance::close_listen(ListenComm* listen_comm) {
  while (RecvComm* arrival = listen_comm->take()) {
    arrival->begin_close();
    close(arrival);
  }
  receivers_.close(listen_comm);
}

Result Instance::check_handle(HandleBytes bytes, Handle* out) const {
  switch (decode(bytes, out)) {
    case HandleFault::kNone:
      return Result::kSuccess;
    case HandleFault::kForeign:
      log_warn(
          "the peer does not use Lyre: its handle is from %s. Every rank needs the same "
          "NCCL_NET; NCCL_NET=Lyre makes a rank without Lyre fail instead of falling back",
          describe_foreign(bytes).c_str());
      return Result::kInvalidUsage;
    case HandleFault::kVersion:
      log_warn(
          "host %s, process %u, speaks versions %u to %u of this plugin's protocol, this one "
          "%u to %u: install the same Lyre on both hosts",
          out->host.c_str(), out->pid, out->version_min, out->version_max, kProtocolVersionMin,
          kProtocolVersionMax);
      return Result::kInvalidUsage;
    case HandleFault::kDamaged:
      log_warn("the peer's handle was damaged on its way here (bad checksum)");
      return Result::kInvalidArgument;
  }
  return Result::kInternalError;
}

SendComm* Instance::begin_connect(int dev, HandleBytes bytes, const Handle& handle) {
  // For a receiver that asks for its streams; without it, they are dialled when TCP notices.
  if (is_attached()) open_acceptor();
  auto comm = std::make_unique<SendComm>(this, make_nonce(), static_cast<size_t>(dev), handle);
  SendComm* made = comm.get();
  adopt(std::move(comm));
  set_connect_note(bytes, connecting_.add(made, now_ns()));
  if (is_attached()) made->tick(now_ns());
  return made;
}

Result Instance::connect(int dev, HandleBytes bytes, Comm** out) {
  *out = nullptr;
  if (const Result result = check_device(dev); result != Result::kSuccess) return result;
  Handle handle;
  if (const Result result = check_handle(bytes, &handle); result != Result::kSuccess) return result;
  const uint64_t note = get_connect_note(bytes);
  connecting_.note_asked(note, now_ns());
  if (const Result result = progress(); result != Result::kSuccess) return result;
  // NCCL calls again with the same, writable handle memory: the note in it finds the comm.
  SendComm* comm = note != 0 ? connecting_.find(note) : begin_connect(dev, bytes, handle);
  // The note stays: the peer has a comm of the first connect, and would give out that one for
  // another connect with this handle.
  if (comm == nullptr) {
    say_gone(handle);
    return Result::kSystemError;
  }
  if (!comm->is_connected() && !comm->has_failed()) return Result::kSuccess;
  connecting_.forget(comm);
  set_connect_note(bytes, 0);  // the same handle may be connected to again
  // What ended it since then is for the calls that use it to tell.
  if (comm->is_connected()) {
    given_out_.insert(comm);
    *out = comm;
    return Result::kSuccess;
  }
  const Result result = comm->failure().result;
  log_warn("cannot connect to %s: %s", comm->peer().describe().c_str(),
           comm->failure().why.c_str());
  close(comm);
  return result;
}

Result Instance::accept(ListenComm* listen_comm, Comm** out) {
  *out = nullptr;
  if (const Result result = progress(); result != Result::kSuccess) return result;
  *out = listen_comm->take();
  if (*out != nullptr) given_out_.insert(*out);
  return Result::kSuccess;
}

// The daemon died before the last grant was acknowledged: the peer dials again when the daemon is
// back, and would take its last messages for lost without an answer.
void Instance::await_last_words(int64_t most_ns) {
  // Time in which this process did not run does not count.
  constexpr int64_t kLookNsMax = kProgressThreadNs;
  int64_t waited_ns = 0;
  while (receivers_.is_any_untold() && waited_ns < most_ns && progress() == Result::kSuccess) {
    const int64_t from_ns = monotonic_ns();
    sleep_ns(kShortPauseNs);
    waited_ns += std::min(monotonic_ns() - from_ns, kLookNsMax);
  }
}

void Instance::adopt(std::unique_ptr<Comm> comm) {
  places_[comm.get()] = {++adopted_, telemetry_.take()};
  comms_.emplace(adopted_, std::move(comm));
}

SendComm* Instance::find_sender(const Nonce& id) {
  for (const auto& [number, comm] : comms_) {
    if (comm->id() == id) return dynamic_cast<SendComm*>(comm.get());
  }
  return nullptr;
}

void Instance::close(Comm* comm) {
  receivers_.on_close(comm);
  connecting_.forget(comm);
  if (is_unheard(*comm)) unheard_hosts_.insert(comm->peer().host);
  comm->goodbye().finish();
  const auto place = places_.find(comm);
  telemetry_.give_back(place->second.slot);
  given_out_.erase(comm);
  comms_.erase(place->second.number);
  places_.erase(place);
}

Result Instance::progress() {
  const Result result = progress_in_series();
  wake_workers();
  return result;
}

Result Instance::progress_in_series() {
  if (daemon_ == Daemon::kDead) {
    clock_.look(monotonic_ns());
    look_by_clock();  // the comms are shown as failed
    return Result::kSystemError;
  }
  bool has_found = false;
  if (daemon_ == Daemon::kLost) {
    clock_.look(monotonic_ns());
  } else {
    has_found = poll_daemon();
  }
  if (daemon_ == Daemon::kLost) {
    detach();
    look_for_daemon();
  }
  if (verbs() != nullptr && verbs()->progress(now_ns())) begin_round();
  // What is due by the clock waits for a call that finds no event. After a pause its code is in no
  // cache, and the event would wait for it.
  busy_calls_ = has_found ? busy_calls_ + 1 : 0;
  if (busy_calls_ % kBusyCallsMax == 0) look_by_clock();
  return daemon_ == Daemon::kDead ? Result::kSystemError : Result::kSuccess;
}

Memory* Instance::take_memory(const void* data, size_t bytes) {
  return regions_.take(context(), data, bytes);
}

void Instance::give_back_memory(Memory* memory) {
  if (memory->users == 1 && verbs() != nullptr) verbs()->forget(memory);
  note_daemon_error(regions_.give_back(memory));
}

Result Instance::progress_in_round(const Request* request, std::unique_lock<std::mutex>& lock) {
  const Result result = progress_in_series();
  if (result != Result::kSuccess || !is_attached() || request->is_done()) {
    return result;
  }
  const bool gives_way = small_sends().take_due();
  if (round_began_with_ != request && !gives_way) {
    if (round_began_with_ == nullptr) round_began_with_ = request;
    return result;
  }
  // No descriptor tells of completions: who waits for them polls.
  if (verbs() != nullptr && verbs()->queue_pairs() > 0) return result;
  const bool rests = rest_.begin(context());
  if (!rests && !gives_way) return result;
  if (!rests) wake_workers();  // begin() does so where it rests
  lock.unlock();
  const int64_t left_ns = monotonic_ns();
  if (rests) {
    rest_.wait();
  } else {
    yield_core();
  }
  const int64_t away_ns = monotonic_ns() - left_ns;
  lock.lock();
  if (rests) {
    rest_.end();
  } else {
    small_sends().on_yield(away_ns);
  }
  idle_looks_ = kIdleLooksPerClockRead;  // the next poll reads the clock
  return progress_in_series();
}

bool Instance::poll_daemon() {
  const int happened = lyre_poll(context(), 0);
  if (happened != 0) begin_round();
  if (rest_.is_under_way()) rest_.after_poll(context(), happened != 0);
  // Reading the clock takes a good part of the time of a poll that finds nothing, and such polls
  // are frequent.
  if (happened != 0 || ++idle_looks_ >= kIdleLooksPerClockRead) {
    idle_looks_ = 0;
    clock_.look(monotonic_ns());
  }
  if (happened < 0) {
    note_daemon_error(happened);
    return false;
  }
  const bool has_found = happened > 0;
  while (happened > 0 && is_attached()) {
    lyre_event event{.struct_bytes = sizeof event};
    if (lyre_next_event(context(), &event) != 1) break;
    if (event.session != nullptr) {
      auto* owner = static_cast<SessionOwner*>(lyre_user(event.session));
      if (owner != nullptr) owner->on_ready();
    } else if (acceptor_ != nullptr && acceptor_->listener() == event.listener) {
      acceptor_->on_ready();
    }
  }
  return has_found;
}

// A part of the look in each call: a job of many hosts has a thousand comms in a process.
void Instance::look_by_clock() {
  if (!look_.is_due(now_ns(), is_attached())) return;
  if (look_.shows()) telemetry_.touch(clock_.monotonic_ns());
  const bool is_over = look_.go_on(comms_, kCommsPerLook, [this](const auto& comm) {
    if (look_.ticks() && is_attached()) comm->tick(now_ns());
    if (!look_.shows()) return;
    nccl_abi::CommSlot* slot = places_.find(comm.get())->second.slot;
    if (slot != nullptr) show(comm->facts(), slot);
  });
  if (is_over && look_.ticks() && is_attached()) end_tick();
}

/// What is not of a single comm.
void Instance::end_tick() {
  const int64_t passed_ns = look_.note_tick(now_ns());
  const uint64_t shortages = shortage().declared();
  const bool is_short = std::exchange(shortages_, shortages) != shortages;
  for (StreamCount& count : stream_counts_) {
    if (is_short) count.halve();
    count.look(passed_ns);
  }
  if (acceptor_ != nullptr) acceptor_->expire();
  regions_.ask_again(context(), now_ns());
  if (!closes_abandoned_) return;
  // NCCL aborted: it closes only what connect() has given out.
  for (SendComm* comm : connecting_.take_abandoned(now_ns())) {
    log_info("connect to %s was not called for %lld minutes: closed",
             comm->peer().describe().c_str(), static_cast<long long>(kConnectAbandonedMinutes));
    comm->begin_close();
    close(comm);
  }
}

Shortage& Instance::shortage() { return nccl_adapter::shortage(); }

// Called by the progress thread, for times when NCCL makes no call.
void Instance::progress_if_idle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // A call may hold the lock for a minute, as regMr() during an upgrade: the process is alive.
  if (!lock.owns_lock()) return telemetry_.touch(monotonic_ns());
  if (monotonic_ns() - clock_.monotonic_ns() < kProgressThreadNs / 2) return;
  idle_looks_ = kIdleLooksPerClockRead - 1;  // a poll by the progress thread reads the clock
  try {
    do {
      busy_calls_ = kBusyCallsMax - 1;  // and does all that is due by it
      progress();
    } while (look_.is_under_way());
  } catch (const std::exception& error) {
    // NCCL's next call has to know: what was under way may never end.
    log_warn("the progress thread cannot go on: %s", error.what());
    set_daemon(Daemon::kDead);
  }
}

void Instance::detach() {
  if (is_detached_) return;
  is_detached_ = true;
  for (auto& [number, comm] : comms_) comm->on_detached();
  if (acceptor_ != nullptr) acceptor_->on_detached();
  regions_.on_detached();
  attachment_->lose(now_ns());
}

void Instance::look_for_daemon() {
  bool is_found = context() != nullptr || attachment_->find(now_ns());
  // The port that peers know may be in use for a moment: then all of it is tried once more.
  if (is_found && acceptor_ != nullptr && !acceptor_->on_attached()) {
    attachment_->lose_again(lyre_last_error());
    is_found = false;
  }
  clock_.look(monotonic_ns(), kFindNsMax);
  if (!is_found) {
    if (!attachment_->is_given_up(now_ns())) return;
    set_daemon(Daemon::kDead);
    log_warn(
        "the Lyre daemon at %s is gone and was not back after %lld s (LYRE_RESUME_SECONDS): %s",
        socket_path_text(settings_), static_cast<long long>(settings_.resume_s),
        attachment_->failure().c_str());
    return;
  }
  regions_.on_attached(context());
  set_daemon(Daemon::kAttached);
  is_detached_ = false;
  clock_.look(monotonic_ns());
  look_.note_tick(now_ns());
  connecting_.note_all_asked(now_ns());
  log_info("the Lyre daemon at %s is back: %zu comms go on", socket_path_text(settings_),
           comms_.size());
  for (auto& [number, comm] : comms_) comm->on_attached(now_ns());
}

void Instance::set_daemon(Daemon daemon) {
  daemon_ = daemon;
  is_attached_ = daemon == Daemon::kAttached;
  if (daemon == Daemon::kDead) is_dead_.store(true, std::memory_order_relaxed);
}

bool Instance::note_daemon_error(int code) {
  if (code != LYRE_E_DAEMON && code != LYRE_E_EXPELLED && code != LYRE_E_SHUTDOWN) return false;
  if (!is_attached()) return true;
  if (code == LYRE_E_EXPELLED) {
    // A new attachment would be expelled for the same reason.
    set_daemon(Daemon::kDead);
    log_warn("the Lyre daemon at %s disconnected this process: %s", socket_path_text(settings_),
             lyre_last_error());
  } else {
    set_daemon(Daemon::kLost);
    log_info("the Lyre daemon at %s is gone; looking for it for %lld s",
             socket_path_text(settings_), static_cast<long long>(settings_.resume_s));
  }
  return true;
}

}  // namespace lyre::nccl_adapter
