#include "tools/nccl_emulator/progress_thread.h"

#include <sched.h>

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

/// The messages of one connection during one operation. As NCCL, only the oldest request is tested.
class Side {
 public:
  Side(NetPlugin& plugin, Connection& connection, Share share, SideTrace trace)
      : plugin_(plugin),
        connection_(connection),
        protocol_(share.protocol),
        plan_(share.plan),
        total_(share.slices),
        trace_(trace) {}

  bool is_done() const { return done_ == total_; }

  size_t poll_send() {
    size_t work = 0;
    // pairs with the release in Device::run_slice: the slot is written
    const uint64_t ready = connection_.device_steps.value.load(std::memory_order_acquire);
    while (posted_ < ready && post_send()) ++work;
    while (done_ < posted_ && test_oldest()) ++work;
    return work;
  }

  size_t poll_recv() {
    size_t work = 0;
    // pairs with the release in Device::run_slice: the slot is free again
    const uint64_t used = connection_.device_steps.value.load(std::memory_order_acquire);
    while (posted_ < total_ && posted_ - used < depth() && posted_ - done_ < depth() && post_recv())
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
            .phandle = trace_.start_step(step)};
  }

  bool post_send() {
    void* request = nullptr;
    const size_t bytes = connection_.slot_bytes[index(posted_)];
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
    connection_.slot_bytes[index(done_)] = static_cast<uint32_t>(bytes[0]);
    connection_.bytes_moved += static_cast<uint64_t>(bytes[0]);
    trace_.stop_step(done_++);
    if (is_done()) trace_.stop();
    // pairs with the acquire in Device::is_ready
    connection_.proxy_steps.value.store(done_, std::memory_order_release);
    return true;
  }

  NetPlugin& plugin_;
  Connection& connection_;
  Protocol protocol_;
  SlotPlan plan_;
  uint64_t total_;
  SideTrace trace_;
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
  std::array<void*, kSlots> requests_{};
};

uint64_t count_slices(const std::vector<Slice>& slices, bool (*wanted)(RingOp)) {
  uint64_t count = 0;
  for (const Slice& slice : slices) count += wanted(slice.op) ? 1 : 0;
  return count;
}

void reset(Connection& connection) {
  connection.device_steps.value.store(0, std::memory_order_relaxed);
  connection.proxy_steps.value.store(0, std::memory_order_relaxed);
}

struct ChannelSides {
  Side send;
  Side recv;
};

std::vector<ChannelSides> make_sides(NetPlugin& plugin, std::span<Channel* const> channels,
                                     const Operation& operation, SlotPlan plan,
                                     const OperationTrace& trace) {
  std::vector<ChannelSides> sides;
  for (size_t i = 0; i < channels.size(); ++i) {
    const std::vector<Slice>& slices = operation.ring[i];
    reset(channels[i]->send);
    reset(channels[i]->recv);
    const uint64_t sent = count_slices(slices, [](RingOp op) { return sends(op); });
    const uint64_t received = count_slices(slices, [](RingOp op) { return receives(op); });
    sides.push_back(
        {Side(plugin, channels[i]->send, {operation.protocol, plan, sent}, trace.send(i, sent)),
         Side(plugin, channels[i]->recv, {operation.protocol, plan, received},
              trace.receive(i, received))});
  }
  return sides;
}

}  // namespace

ProgressThread::ProgressThread(NetPlugin& plugin, Profiler* profiler,
                               std::span<Channel* const> channels, Options options)
    : plugin_(plugin),
      profiler_(profiler),
      channels_(channels),
      options_(options),
      device_(channels),
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
  } catch (const std::exception& failure) {
    device_error_ = failure.what();
    device_failed_.store(true, std::memory_order_release);  // pairs with run_operation's acquire
  }
}

void ProgressThread::run_operation(Operation* operation) {
  const auto begin = std::chrono::steady_clock::now();
  const SlotPlan plan = slot_plan(operation->protocol, options_.slice_steps);
  OperationTrace trace(profiler_, operations_++, *operation, options_.neighbours);
  std::vector<ChannelSides> sides = make_sides(plugin_, channels_, *operation, plan, trace);
  device_.start(operation, options_.slice_steps);
  std::jthread device_thread;
  if (options_.device_thread) {
    device_thread = std::jthread([this](std::stop_token stop) { run_device(stop); });
  }
  bool done = false;
  while (!done && !stop_.load(std::memory_order_relaxed)) {
    size_t work = 0;
    done = true;
    for (ChannelSides& channel : sides) {
      work += channel.recv.poll_recv();
      work += channel.send.poll_send();
      done = done && channel.recv.is_done() && channel.send.is_done();
    }
    if (!options_.device_thread) {
      work += device_.poll();
      done = done && device_.is_done();
    }
    // pairs with the release in run_device: device_error_ is written
    if (device_failed_.load(std::memory_order_acquire)) throw Failure(device_error_);
    // Also at the end: a daemon on this core still has to send our last acknowledgement. Without
    // the yield it would wait until the rank has verified its values.
    if (work == 0 || done) sched_yield();
    steps_done_.fetch_add(work, std::memory_order_relaxed);
  }
  if (!done) device_thread.request_stop();  // the slices that it waits for will not arrive
  if (device_thread.joinable()) device_thread.join();
  trace.stop();
  operation->elapsed = std::chrono::steady_clock::now() - begin;
}

}  // namespace lyre::nccl_emulator
