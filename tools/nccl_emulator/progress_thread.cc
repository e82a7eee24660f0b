#include "tools/nccl_emulator/progress_thread.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <exception>

#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

/// The part of an operation that one connection carries.
struct Share {
  Protocol protocol;
  SlotPlan plan;
  uint64_t slices;
};

}  // namespace

/// The messages of one connection during one operation. As NCCL, only the oldest request is tested.
/// Not movable: requests refer to it.
class ProgressThread::Side {
 public:
  Side(NetPlugin& plugin, Connection& connection, Share share, SideTrace trace)
      : plugin_(plugin),
        connection_(connection),
        protocol_(share.protocol),
        plan_(share.plan),
        first_(connection.steps),
        end_(first_ + share.slices),
        trace_(trace),
        posted_(first_),
        done_(first_) {
    connection.steps = end_;
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  bool is_done() const { return done_ == end_; }

  size_t poll_send() {
    size_t work = 0;
    // pairs with the release in Device::run_slice: the slot is written
    const uint64_t ready = connection_.device_steps.value.load(std::memory_order_acquire);
    while (posted_ < std::min(ready, end_) && post_send()) ++work;
    while (done_ < posted_ && test_oldest()) ++work;
    return work;
  }

  size_t poll_recv() {
    size_t work = 0;
    // pairs with the release in Device::run_slice: the slot is free again
    const uint64_t used = connection_.device_steps.value.load(std::memory_order_acquire);
    while (posted_ < end_ && posted_ - used < depth() && posted_ - done_ < depth() && post_recv())
      ++work;
    while (done_ < posted_ && test_oldest()) ++work;
    return work;
  }

 private:
  uint64_t depth() const { return static_cast<uint64_t>(plan_.depth); }
  size_t index(uint64_t step) const { return step % depth(); }
  uint8_t* slot(uint64_t step) const {
    return connection_.staging.slots(protocol_) + index(step) * plan_.slice_bytes;
  }

  Message message(uint64_t step, size_t bytes) {
    return {.data = slot(step),
            .bytes = bytes,
            .tag = connection_.tag,
            .mhandle = connection_.staging.mhandle(protocol_),
            .phandle = trace_.start_step(step - first_)};
  }

  bool post_send() {
    void* request = nullptr;
    const size_t bytes = connection_.slot_bytes[posted_ % kSlots];
    require_success(plugin_.isend(connection_.comm, message(posted_, bytes), &request), "isend");
    return keep(request);
  }

  bool post_recv() {
    // The LL data carry flags, so NCCL allows the plugin to complete the request early.
    const bool is_early =
        protocol_ == Protocol::kLl && plugin_.abi() >= kFirstAbiWithOptionalCompletion;
    void* request = is_early ? reinterpret_cast<void*>(nccl_abi::kOptionalRecvCompletion) : nullptr;
    require_success(plugin_.irecv(connection_.comm, message(posted_, plan_.slice_bytes), &request),
                    "irecv");
    return keep(request);
  }

  bool keep(void* request) {
    if (request == nullptr) return false;  // try again later
    requests_[index(posted_)] = request;
    ++posted_;
    return true;
  }

  bool test_oldest() {
    int done = 0;
    std::array<int, kSlots> bytes{};
    require_success(plugin_.test(requests_[index(done_)], &done, bytes.data()), "test");
    if (done == 0) return false;
    connection_.slot_bytes[done_ % kSlots] = static_cast<uint32_t>(bytes[0]);
    connection_.bytes_moved += static_cast<uint64_t>(bytes[0]);
    trace_.stop_step(done_++ - first_);
    if (is_done()) trace_.stop();
    // pairs with the acquire in Device::is_ready
    connection_.proxy_steps.value.store(done_, std::memory_order_release);
    return true;
  }

  NetPlugin& plugin_;
  Connection& connection_;
  Protocol protocol_;
  SlotPlan plan_;
  // Steps of the connection:
  uint64_t first_;
  uint64_t end_;
  SideTrace trace_;
  uint64_t posted_;
  uint64_t done_;
  std::array<void*, kSlots> requests_{};
};

namespace {

uint64_t count_slices(const std::vector<Slice>& slices, bool (*wanted)(RingOp)) {
  uint64_t count = 0;
  for (const Slice& slice : slices) count += wanted(slice.op) ? 1 : 0;
  return count;
}

}  // namespace

ProgressThread::ProgressThread(NetPlugin& plugin, Profiler* profiler,
                               std::span<Channel* const> channels, Options options)
    : plugin_(plugin),
      profiler_(profiler),
      channels_(channels),
      options_(options),
      device_(channels),
      sends_(channels.size()),
      receives_(channels.size()),
      thread_([this] { loop(); }) {}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_all();
  thread_.join();
}

void ProgressThread::submit(std::span<Operation> operations) {
  {
    const std::lock_guard lock(mutex_);
    submitted_ = operations;
    busy_ = true;
  }
  changed_.notify_all();
}

bool ProgressThread::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return !busy_ || error_; });
  if (error_) throw Failure(*error_);
  return !busy_;
}

void ProgressThread::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_.load(std::memory_order_relaxed) || busy_; });
    if (stop_.load(std::memory_order_relaxed)) return;
    lock.unlock();
    std::optional<std::string> error;
    try {
      for (Operation& operation : submitted_) run_operation(&operation);
      finish_sends();
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    lock.lock();
    error_ = error;
    busy_ = false;
    changed_.notify_all();
    if (error_) return;
  }
}

void ProgressThread::run_device(std::stop_token stop) {
  try {
    while (!device_.is_done() && !stop.stop_requested()) {
      if (device_.poll() == 0) sched_yield();
    }
    // pairs with the acquire in is_device_done(): the operation's data are written
    device_done_.store(device_.is_done(), std::memory_order_release);
  } catch (const std::exception& failure) {
    device_error_ = failure.what();
    device_failed_.store(true, std::memory_order_release);  // pairs with run_operation's acquire
  }
}

void ProgressThread::add_sides(const Operation& operation, SlotPlan plan,
                               const OperationTrace& trace) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    const std::vector<Slice>& slices = operation.ring[i];
    const uint64_t sent = count_slices(slices, [](RingOp op) { return sends(op); });
    const uint64_t received = count_slices(slices, [](RingOp op) { return receives(op); });
    sends_[i].emplace_back(plugin_, channels_[i]->send, Share{operation.protocol, plan, sent},
                           trace.send(i, sent));
    receives_[i].emplace_back(plugin_, channels_[i]->recv,
                              Share{operation.protocol, plan, received},
                              trace.receive(i, received));
  }
}

// As NCCL, the operations of one connection are progressed one after the other.
size_t ProgressThread::poll(std::vector<std::list<Side>>& channels, size_t (Side::*poll_side)()) {
  size_t work = 0;
  for (std::list<Side>& sides : channels) {
    if (!sides.empty()) work += (sides.front().*poll_side)();
    while (!sides.empty() && sides.front().is_done()) sides.pop_front();
  }
  return work;
}

size_t ProgressThread::poll_sends() { return poll(sends_, &Side::poll_send); }

size_t ProgressThread::poll_receives() { return poll(receives_, &Side::poll_recv); }

bool ProgressThread::all_done(const std::vector<std::list<Side>>& sides) {
  return std::ranges::all_of(sides, [](const std::list<Side>& each) { return each.empty(); });
}

bool ProgressThread::is_device_done() const {
  if (!options_.device_thread) return device_.is_done();
  // pairs with the release in run_device
  return device_done_.load(std::memory_order_acquire);
}

void ProgressThread::run_operation(Operation* operation) {
  // NCCL starts the event of a collective before it hands it to the proxy thread
  // (hostStreamPlanTask).
  OperationTrace trace(profiler_, operations_++, *operation, options_.neighbours);
  const auto begin = std::chrono::steady_clock::now();
  add_sides(*operation, slot_plan(operation->protocol, options_.slice_steps, operation->collective),
            trace);
  device_.start(operation, options_.slice_steps);
  std::jthread device_thread;
  device_done_.store(false, std::memory_order_relaxed);
  if (options_.device_thread) {
    device_thread = std::jthread([this](std::stop_token stop) { run_device(stop); });
  }
  bool done = false;
  while (!done && !stop_.load(std::memory_order_relaxed)) {
    size_t work = poll_receives() + poll_sends();
    if (!options_.device_thread) work += device_.poll();
    done = all_done(receives_) && is_device_done();
    // pairs with the release in run_device: device_error_ is written
    if (device_failed_.load(std::memory_order_acquire)) throw Failure(device_error_);
    if (done) operation->elapsed = std::chrono::steady_clock::now() - begin;
    if (work == 0 && !done) sched_yield();
    steps_done_.fetch_add(work, std::memory_order_relaxed);
  }
  if (!done) device_thread.request_stop();  // the slices that it waits for will not arrive
  if (device_thread.joinable()) device_thread.join();
  trace.stop();
}

/// What a rank sent may still be in its slots when it has its result.
void ProgressThread::finish_sends() {
  while (!all_done(sends_) && !stop_.load(std::memory_order_relaxed)) {
    const size_t work = poll_sends();
    steps_done_.fetch_add(work, std::memory_order_relaxed);
    if (work == 0) sched_yield();
  }
  // A daemon on this core still has to send our last acknowledgement. Without the yield it would
  // wait until the rank has verified its values.
  sched_yield();
}

}  // namespace lyre::nccl_emulator
