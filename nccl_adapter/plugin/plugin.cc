#include "nccl_adapter/plugin/plugin.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "nccl_adapter/comm/close_patience.h"
#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/comm/goodbye.h"
#include "nccl_adapter/comm/host_patience.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/daemon_link/system.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/plugin/contexts.h"
#include "nccl_adapter/plugin/instance_registry.h"
#include "nccl_adapter/plugin/open_instance.h"
#include "nccl_adapter/plugin/profiler.h"
#include "nccl_adapter/plugin/properties.h"
#include "nccl_adapter/protocol/handle.h"

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kClosePollNs = 50'000;

// Set in a child by fork(): connections and memory belong to the parent, which still uses them.
std::atomic<bool> g_is_inherited{false};

// Of who sets the process's instance.
std::mutex g_init_mutex;
// How often that failed; counted under the mutex.
std::atomic<uint64_t> g_init_failures{0};

bool refuse_inherited() {
  if (!g_is_inherited.load(std::memory_order_relaxed)) return false;
  static std::atomic<bool> is_mentioned{false};
  if (!is_mentioned.exchange(true)) {
    log_warn(
        "process %d was forked after the plugin was initialised: connections and shared "
        "memory belong to the parent. Start ranks with exec, or fork before NCCL starts",
        static_cast<int>(::getpid()));
  }
  return true;
}

// Every environment here is an instance.
Instance* instance_of(const Comm* comm) { return static_cast<Instance*>(comm->environment()); }

// Runs `body` where no exception gets through to NCCL.
template <typename Body>
Result guarded(Body&& body) {
  if (refuse_inherited()) return Result::kInvalidUsage;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    log_warn("out of memory");
    return Result::kSystemError;
  } catch (const std::exception& error) {
    log_warn("internal error: %s", error.what());
    return Result::kInternalError;
  }
}

// At the end of a call, workers that sleep see what it submitted. Declared after the lock.
class WakesWorkers {
 public:
  explicit WakesWorkers(Instance* instance) : instance_(instance) {}
  ~WakesWorkers() { instance_->wake_workers(); }
  WakesWorkers(const WakesWorkers&) = delete;
  WakesWorkers& operator=(const WakesWorkers&) = delete;

 private:
  Instance* const instance_;
};

template <typename Body>
Result with(Instance* instance, Body&& body) {
  return guarded([&] {
    const std::lock_guard lock(instance->mutex());
    const WakesWorkers wakes_workers(instance);
    return body();
  });
}

/// The same for a call that another one may have overtaken, which ended the instance: `call` is
/// nothing, or it waited for the mutex meanwhile. `ended`: what NCCL uses then, for the log.
template <typename Body>
Result with_unless_over(const InstanceCall& call, const char* ended, Body&& body) {
  const auto refuse = [ended] {
    log_warn("NCCL uses %s", ended);
    return Result::kInvalidUsage;
  };
  if (call == nullptr) return guarded(refuse);
  return with(call.get(), [&] { return call->is_over() ? refuse() : body(); });
}

// NCCL 2.28.3 goes on with the context of a parent that it has finalized, in a child that shares
// its resources. Without comms the instance has ended then.
constexpr const char* kEndedContext = "the context of a communicator that it has finalized";
constexpr const char* kEndedListenComm =
    "a listen comm that ended with its communicator, or with its daemon";

void watch_forks() {
  [[maybe_unused]] static const int is_watching = pthread_atfork(
      nullptr, nullptr, [] { g_is_inherited.store(true, std::memory_order_relaxed); });
}

void expect_no_finalize(Instance& instance) {
  const std::lock_guard lock(instance.mutex());
  instance.expect_no_finalize();
}

/// REQUIRES: g_init_mutex is held.
Result set_process_instance(std::unique_ptr<Instance> instance) {
  if (instance == nullptr) {
    g_init_failures.fetch_add(1, std::memory_order_relaxed);
    return Result::kSystemError;
  }
  expect_no_finalize(*instance);
  instance_registry().set_process_instance(std::move(instance));
  return Result::kSuccess;
}

// The test() that follows wakes the workers: see Instance::progress_in_series().
Result post(void* comm_pointer, void* data, size_t bytes, const void* mhandle, void* phandle,
            void** request) {
  auto* comm = static_cast<Comm*>(comm_pointer);
  *request = nullptr;
  const Operation operation = operation_of(phandle);
  Instance* instance = instance_of(comm);
  return guarded([&] {
    const std::lock_guard lock(instance->mutex());
    if (bytes > kMessageBytesMax) {
      log_warn("a message of %zu bytes: the most is %zu (maxP2pBytes)", bytes, kMessageBytesMax);
      return Result::kInvalidArgument;
    }
    const Result alive = instance->progress_in_series();
    if (alive != Result::kSuccess) return alive;
    instance->begin_round();
    Request* posted = nullptr;
    const Result result =
        comm->post(data, bytes, static_cast<const Registration*>(mhandle), operation, &posted);
    *request = posted;
    return result;
  });
}

bool finalize_instance(Instance* instance) {
  const std::lock_guard lock(instance->mutex());
  return instance->finalize();
}

/// Makes progress until `is_over`, or it is too late. The lock is not held meanwhile, so that other
/// threads' comms go on.
template <typename IsOver>
void progress_until(Instance* instance, std::unique_lock<std::mutex>& lock, int64_t deadline_ns,
                    IsOver is_over) {
  while (!is_over() && monotonic_ns() < deadline_ns) {
    lock.unlock();
    sleep_ns(kClosePollNs);
    lock.lock();
    if (instance->progress() != Result::kSuccess) break;
  }
}

// NCCL frees the buffers of a connection one after the other, then closes it. Towards a host that
// vanished only the first one waits in full.
void await_acknowledgements(Instance* instance, std::unique_lock<std::mutex>& lock,
                            const Comm& comm, const Registration* registration) {
  bool is_in_vain = comm.should_wait_to_deregister(registration);
  if (!is_in_vain) return;
  const std::string& host = comm.peer().host;
  const int64_t begun_ns = monotonic_ns();
  progress_until(instance, lock, host_patience().release_deadline_ns(host, begun_ns),
                 [&] { return !(is_in_vain = comm.should_wait_to_deregister(registration)); });
  // Else it is over for any reason: perhaps the stream has ended, and the host was not heard.
  if (!is_in_vain || !instance->is_attached() || comm.has_failed()) return;
  host_patience().on_released_in_vain(host, begun_ns, monotonic_ns());
}

// A goodbye without a stream, or without this host's daemon, is over at once: nothing was heard.
void note_goodbye(Instance* instance, Comm* comm) {
  const Goodbye& goodbye = comm->goodbye();
  const bool was_in_vain = !goodbye.is_heard();
  const bool was_heard =
      instance->is_attached() && (goodbye.is_peer_gone() || goodbye.is_acknowledged());
  if (!was_in_vain && !was_heard) return;
  host_patience().on_closed(comm->peer().host, was_in_vain, monotonic_ns());
}

// As long as the rest of kCloseWaitNs, and at least as long as a host takes that is there.
void await_goodbye(Instance* instance, std::unique_lock<std::mutex>& lock, Comm* comm,
                   int64_t close_deadline_ns) {
  const int64_t said_ns = monotonic_ns();
  const int64_t least_ns = said_ns + ClosePatience::kFollowerGoodbyeNs;
  const int64_t host_deadline_ns = host_patience().deadline_ns(comm->peer().host, said_ns);
  const int64_t deadline_ns = std::max(std::min(close_deadline_ns, host_deadline_ns), least_ns);
  progress_until(instance, lock, deadline_ns,
                 [&] { return comm->has_failed() || comm->goodbye().is_heard(); });
  if (!comm->has_failed()) note_goodbye(instance, comm);
}

// Small messages of which test() said done are placed first, if the peer does not take long: until
// then a daemon that was restarted gets them again. The goodbye, and the last acknowledgements
// before it, must be out before NCCL may end the process. True when the instance is over.
bool close_in_order(Instance* instance, Comm* comm) {
  const int64_t begun_ns = monotonic_ns();
  const int64_t deadline_ns = begun_ns + kCloseWaitNs;
  std::unique_lock lock(instance->mutex());
  const WakesWorkers wakes_workers(instance);
  // Of this thread: it closes the comms of one communicator.
  thread_local ClosePatience patience;
  const int64_t placed_until_ns = std::min(
      patience.deadline_ns(begun_ns), host_patience().deadline_ns(comm->peer().host, begun_ns));
  const bool has_waited = comm->should_wait_to_close();
  bool is_unplaced = has_waited;
  progress_until(instance, lock, placed_until_ns,
                 [&] { return !(is_unplaced = comm->should_wait_to_close()); });
  const bool has_result = has_waited && !comm->has_failed();
  comm->begin_close();
  instance->wake_workers();
  await_goodbye(instance, lock, comm, deadline_ns);
  if (has_result) {
    patience.on_closed(is_unplaced, monotonic_ns());
  } else {
    patience.on_closed_without_result(begun_ns, monotonic_ns());
  }
  instance->close(comm);
  return instance->is_over();
}

// The process's context is its instance.
Result begin_call_for_new_comm(const void* context, InstanceCall* call) {
  return guarded([&] {
    *call = instance_registry().begin_call(context);
    return *call != nullptr ? Result::kSuccess : contexts().open(context, call);
  });
}

void end_instance(const Instance* instance) {
  contexts().forget(instance);
  instance_registry().end(instance);
}

HandleBytes handle_bytes(void* handle) {
  return HandleBytes(static_cast<uint8_t*>(handle), nccl_abi::kHandleBytesMax);
}

}  // namespace

Result init_context(void** context, uint64_t communicator, nccl_abi::Logger logger,
                    nccl_abi::ProfilerCallback profiler) {
  *context = nullptr;
  set_logger(logger);
  set_profiler_callback(profiler);
  return guarded([&] {
    watch_forks();
    std::optional<Prepared> prepared = prepare_instance(communicator);
    if (!prepared) return Result::kSystemError;
    *context = contexts().add(std::move(*prepared));
    return Result::kSuccess;
  });
}

Result finalize(void* context) {
  return guarded([&] {
    InstanceRegistry& all = instance_registry();
    const Instance* own = contexts().finalize(context);
    const InstanceCall call = all.begin_call(own != nullptr ? own : context);
    if (call == nullptr || !all.begin_finalize(call.get())) return Result::kSuccess;
    // Else the last close does it: NCCL 2.28.3 to 2.28.6 finalizes the context of a communicator
    // while a child, made with splitShare or shrinkShare, uses its comms.
    if (finalize_instance(call.get())) end_instance(call.get());
    return Result::kSuccess;
  });
}

Result init_process(nccl_abi::Logger logger, nccl_abi::ProfilerCallback profiler) {
  set_logger(logger);
  set_profiler_callback(profiler);
  return guarded([&] {
    watch_forks();
    const std::lock_guard one_init(g_init_mutex);
    if (instance_registry().has_live_process_instance()) return Result::kSuccess;
    return set_process_instance(open_process_instance());
  });
}

void* process_context() {
  if (refuse_inherited()) return nullptr;
  return instance_registry().process_instance();
}

// Where the dead instance cannot be replaced, it is what the call is refused by. Calls of several
// threads wait at the same time: one that waited for another's attempt takes its failure.
void* process_context_for_new_comm() {
  if (refuse_inherited()) return nullptr;
  (void)guarded([] {
    InstanceRegistry& all = instance_registry();
    if (!all.settings_to_open_again()) return Result::kSuccess;
    // Relaxed: a number; what it is compared with is read under the mutex that it changes under.
    const uint64_t failures = g_init_failures.load(std::memory_order_relaxed);
    const std::lock_guard one_init(g_init_mutex);
    if (g_init_failures.load(std::memory_order_relaxed) != failures) return Result::kSystemError;
    const std::optional<Settings> settings = all.settings_to_open_again();
    if (!settings) return Result::kSuccess;  // another thread did it
    return set_process_instance(open_instance(*settings, 0));
  });
  return process_context();
}

void* process_context_to_connect(void* handle) {
  const bool is_first_call = get_connect_note(handle_bytes(handle)) == 0;
  return is_first_call ? process_context_for_new_comm() : process_context();
}

Result devices(int* ndev) {
  return guarded([&] {
    *ndev = known_port_count();
    return Result::kSuccess;
  });
}

Result listen(void* context, int dev, void* handle, void** listen_comm) {
  *listen_comm = nullptr;
  if (context == nullptr || refuse_inherited()) return Result::kInvalidUsage;
  InstanceCall call;
  const Result opened = begin_call_for_new_comm(context, &call);
  if (opened != Result::kSuccess) return opened;
  ListenComm* made = nullptr;
  const Result result = with_unless_over(
      call, kEndedContext, [&] { return call->listen(dev, handle_bytes(handle), &made); });
  if (result != Result::kSuccess) return result;
  return guarded([&] {
    *listen_comm = instance_registry().add_listening(call.get(), made);
    return Result::kSuccess;
  });
}

Result connect(void* context, int dev, void* handle, void** send_comm) {
  *send_comm = nullptr;
  if (context == nullptr || refuse_inherited()) return Result::kInvalidUsage;
  InstanceCall call;
  const Result opened = begin_call_for_new_comm(context, &call);
  if (opened != Result::kSuccess) return opened;
  return with_unless_over(call, kEndedContext, [&] {
    Comm* made = nullptr;
    const Result result = call->connect(dev, handle_bytes(handle), &made);
    *send_comm = made;
    return result;
  });
}

Result accept(void* listen_comm, void** recv_comm, nccl_abi::NetDeviceHandle**) {
  *recv_comm = nullptr;
  if (refuse_inherited()) return Result::kInvalidUsage;
  const ListeningCall call = instance_registry().begin_listening_call(listen_comm);
  return with_unless_over(call.instance, kEndedListenComm, [&] {
    Comm* made = nullptr;
    const Result result = call.instance->accept(call.comm, &made);
    *recv_comm = made;
    return result;
  });
}

Result reg_mr(void* comm_pointer, void* data, size_t bytes, int type, void** mhandle) {
  *mhandle = nullptr;
  auto* comm = static_cast<Comm*>(comm_pointer);
  return with(instance_of(comm), [&] {
    if (type != nccl_abi::kPtrHost) {
      log_warn("regMr() of memory of type %d: only host memory (1) is supported", type);
      return Result::kInvalidUsage;
    }
    *mhandle = comm->add_registration(data, bytes);
    return Result::kSuccess;
  });
}

Result dereg_mr(void* comm_pointer, void* mhandle) {
  if (mhandle == nullptr) return Result::kSuccess;
  auto* comm = static_cast<Comm*>(comm_pointer);
  Instance* instance = instance_of(comm);
  return guarded([&] {
    const auto* registration = static_cast<const Registration*>(mhandle);
    std::unique_lock lock(instance->mutex());
    const WakesWorkers wakes_workers(instance);
    await_acknowledgements(instance, lock, *comm, registration);
    return comm->remove_registration(registration);
  });
}

Result isend(void* send_comm, void* data, size_t bytes, void* mhandle, void* phandle,
             void** request) {
  return post(send_comm, data, bytes, mhandle, phandle, request);
}

Result irecv(void* recv_comm, int count, void* data, size_t bytes, void* mhandle, void* phandle,
             void** request) {
  *request = nullptr;
  if (count != 1) {
    return guarded([&] {
      log_warn("irecv() of %d buffers: maxRecvs is 1", count);
      return Result::kInvalidArgument;
    });
  }
  return post(recv_comm, data, bytes, mhandle, phandle, request);
}

// Only asked for where receives go to a GPU's memory, which reg_mr() refuses.
Result iflush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return Result::kInternalError;
}

Result test(void* request_pointer, int* done, int* sizes) {
  *done = 0;
  auto* request = static_cast<Request*>(request_pointer);
  Instance* instance = instance_of(request->comm);
  return guarded([&] {
    std::unique_lock lock(instance->mutex());
    const WakesWorkers wakes_workers(instance);
    const Result alive = instance->progress_in_round(request, lock);
    if (alive != Result::kSuccess && !request->is_done()) return alive;
    return request->comm->test(request, done, sizes);
  });
}

Result close_comm(void* comm_pointer) {
  if (comm_pointer == nullptr) return Result::kSuccess;
  auto* comm = static_cast<Comm*>(comm_pointer);
  return guarded([&] {
    const InstanceCall call = instance_registry().begin_call(instance_of(comm));
    if (close_in_order(call.get(), comm)) end_instance(call.get());
    return Result::kSuccess;
  });
}

// One that ended with its instance is closed; an error would stop NCCL's cleanup.
Result close_listen(void* listen_comm) {
  if (listen_comm == nullptr) return Result::kSuccess;
  if (refuse_inherited()) return Result::kInvalidUsage;
  const ListeningCall call = instance_registry().begin_last_listening_call(listen_comm);
  if (call.instance == nullptr) return Result::kSuccess;
  bool is_over = false;
  const Result result = with(call.instance.get(), [&] {
    call.instance->close_listen(call.comm);
    is_over = call.instance->is_over();
    return Result::kSuccess;
  });
  if (is_over) end_instance(call.instance.get());
  return result;
}

// What NCCL tells about the next operation does not change anything here.
Result set_net_attr(void*, nccl_abi::NetAttr*) { return Result::kSuccess; }

}  // namespace lyre::nccl_adapter
