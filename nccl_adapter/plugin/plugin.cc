#include "nccl_adapter/plugin/plugin.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "nccl_adapter/abi/setting_names.h"
#include "nccl_adapter/comm/close_patience.h"
#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/daemon_link/system.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/plugin/profiler.h"
#include "nccl_adapter/plugin/properties.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/verbs/report.h"

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kClosePollNs = 50'000;

// Set in a child by fork(): connections and memory belong to the parent, which still uses them.
std::atomic<bool> g_is_inherited{false};

struct Registry {
  std::mutex init_mutex;          ///< of init_process(); taken before `mutex`
  std::mutex mutex;               ///< guards the rest; nothing waits for a daemon under it
  std::set<Instance*> instances;  ///< not finalized
  std::set<Instance*> existing;   ///< also those that are finalized and whose comms are in use
  Instance* process_instance = nullptr;
  std::vector<std::unique_ptr<Instance>> replaced;  // daemon dead, comms open
  bool has_fork_handler = false;
};

// Never destroyed: NCCL's threads may still call while the process runs its exit handlers.
Registry& registry() {
  static Registry& the_registry = *new Registry;
  return the_registry;
}

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
template <typename Member>
Instance* instance_of(const Member* member) {
  return static_cast<Instance*>(member->environment());
}

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

void watch_forks(Registry& all) {
  const std::lock_guard lock(all.mutex);
  if (all.has_fork_handler) return;
  all.has_fork_handler = true;
  pthread_atfork(nullptr, nullptr, [] { g_is_inherited.store(true, std::memory_order_relaxed); });
}

void log_attached(const Instance& instance) {
  std::string ports;
  for (const lyre_port& port : instance.ports()) {
    lyre_addr address{};
    std::copy(std::begin(port.address), std::end(port.address), std::begin(address.address));
    std::string text = to_string(address);
    if (text.ends_with(":0")) text.resize(text.size() - 2);
    ports += ports.empty() ? "" : ", ";
    ports += std::string(port.name) + " " + text;
    if (port.speed_mbps > 0) ports += " " + std::to_string(port.speed_mbps) + " Mb/s";
    if (port.is_link_up == 0) ports += " (link down)";
  }
  log_info("Lyre %s, daemon at %s, ports: %s", lyre_version(),
           socket_path_text(instance.settings()), ports.c_str());
}

// Once a process: opening devices takes a while, and init is called for each communicator.
const VerbsReport& find_verbs(const Settings& settings) {
  static const VerbsReport& found = *new VerbsReport([&] {
    std::string why = "LYRE_VERBS=off";
    const VerbsApi* api = settings.verbs == VerbsUse::kOff ? nullptr : load_verbs(&why);
    VerbsReport report = report_verbs(api, why, settings);
    for (const std::string& line : report.lines) log_info("%s", line.c_str());
    return report;
  }());
  return found;
}

bool is_possible(const Settings& settings) {
  if (settings.verbs != VerbsUse::kOnly || find_verbs(settings).why_none.empty()) return true;
  log_warn("LYRE_VERBS=only, and no data can go over RDMA: %s",
           find_verbs(settings).why_none.c_str());
  return false;
}

/// Once a process, which opens an instance for each communicator.
void warn_of_unknown_settings() {
  static std::atomic<bool> is_mentioned{false};
  if (is_mentioned.exchange(true)) return;
  for (const std::string& line : nccl_abi::unknown_settings(environ)) log_warn("%s", line.c_str());
}

Instance* keep(Registry& all, Instance* instance) {
  if (instance == nullptr) return nullptr;
  all.instances.insert(instance);
  all.existing.insert(instance);
  return instance;
}

void destroy(Instance* instance) {
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    all.existing.erase(instance);
  }
  delete instance;
}

/// NCCL 2.28.3 goes on with the context of a parent that it has finalized, in a child that shares
/// its resources. Without comms the instance is gone then.
bool exists(Instance* instance) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.existing.contains(instance)) return true;
  log_warn("NCCL uses the context of a communicator that it has finalized");
  return false;
}

/// How long an init that failed so is tried again. The daemon is perhaps starting, and the socket
/// of one that starts has no group yet: LYRE_E_PERMISSION. A daemon at its limit on contexts frees
/// those that were finalized a moment ago when its workers have let go of them.
int64_t patience_ns(int failure, const Settings& settings) {
  switch (failure) {
    case LYRE_E_DAEMON:
    case LYRE_E_PERMISSION:
      return settings.resume_s * kNsPerSecond;
    case LYRE_E_NORESOURCES:
      return kFreeContextNs;
    default:
      return 0;
  }
}

/// Tries until one is open, or its failure needs no patience, or the time is over. A daemon that is
/// back and has no context left gets the time that freeing one takes. At its limits it refuses now
/// a context and now a connection, which looks as if there were no daemon: all of it has a bound.
std::unique_ptr<Instance> open_patiently(const Settings& settings, uint64_t communicator,
                                         int failure) {
  const int64_t began_ns = monotonic_ns();
  const int64_t latest_ns = began_ns + patience_ns(LYRE_E_DAEMON, settings) + kFreeContextNs;
  int64_t until_ns = began_ns + patience_ns(failure, settings);
  std::unique_ptr<Instance> instance;
  while (instance == nullptr && patience_ns(failure, settings) > 0 && monotonic_ns() < until_ns) {
    const int before = failure;
    sleep_ns(kInitAgainNs);
    instance = Instance::open(settings, communicator, &failure);
    if (failure == before) continue;
    const int64_t from_ns = failure == LYRE_E_NORESOURCES ? monotonic_ns() : began_ns;
    const int64_t wanted_ns = from_ns + patience_ns(failure, settings);
    until_ns = std::min(latest_ns, std::max(until_ns, wanted_ns));
  }
  return instance;
}

/// A process that has used a daemon looks for it as long as its comms do: NCCL never asks a plugin
/// again whose init failed, and its next communicator would use sockets. A daemon that has no
/// context left is there and wanted, so the first init waits for it, too. Where none answers, the
/// first init fails at once: perhaps no daemon is wanted here.
std::unique_ptr<Instance> find_daemon(const Settings& settings, uint64_t communicator) try {
  int failure = 0;
  std::unique_ptr<Instance> instance = Instance::open(settings, communicator, &failure);
  const int64_t most_ns = patience_ns(failure, settings);
  const bool may_wait = known_port_count() > 0 || failure == LYRE_E_NORESOURCES;
  if (instance == nullptr && may_wait && most_ns > 0) {
    log_info("the Lyre daemon at %s takes no client now; trying again for %lld s: %s",
             socket_path_text(settings), static_cast<long long>(most_ns / kNsPerSecond),
             lyre_last_error());
    instance = open_patiently(settings, communicator, failure);
  }
  if (instance == nullptr) {
    log_warn("cannot use the Lyre daemon at %s: %s", socket_path_text(settings), lyre_last_error());
  }
  return instance;
} catch (const std::system_error& error) {
  log_warn("cannot start a thread: %s", error.what());
  if (!settings.is_required) return nullptr;
  die("LYRE_REQUIRED is set and no thread can be started (%s): ending this process", error.what());
}

/// A wrong name in LYRE_RAILS fails the first init. Later ones use those that are right: the daemon
/// was perhaps restarted with other ports.
bool has_usable_rails(Instance& instance) {
  std::string wrong;
  {
    const std::lock_guard lock(instance.mutex());
    if (!instance.is_attached()) return true;
    wrong = wrong_rails(instance.context(), instance.settings().rails);
  }
  if (wrong.empty()) return true;
  log_warn("%s", wrong.c_str());
  return known_port_count() > 0 && !instance.ports().empty();
}

Instance* refuse_setting(const Settings& settings) {
  if (settings.is_required) die("LYRE_REQUIRED is set and a setting is wrong: ending this process");
  return nullptr;
}

Instance* open_instance(uint64_t communicator) {
  warn_of_unknown_settings();
  Settings settings;
  if (!read_settings(&settings) || !is_possible(settings)) return refuse_setting(settings);
  std::unique_ptr<Instance> instance = find_daemon(settings, communicator);
  if (instance != nullptr && !has_usable_rails(*instance)) return refuse_setting(settings);
  if (instance != nullptr && instance->ports().empty()) {
    log_warn("the Lyre daemon at %s has no port", socket_path_text(settings));
    instance.reset();
  }
  if (instance == nullptr) {
    if (settings.is_required) {
      die("LYRE_REQUIRED is set and no usable Lyre daemon at %s (%s): ending this process",
          socket_path_text(settings), lyre_last_error());
    }
    return nullptr;
  }
  log_attached(*instance);
  instance->show_verbs(find_verbs(settings).summary);
  set_known_ports(instance->ports(), find_verbs(settings).usable, settings.latency_us);
  return instance.release();
}

bool is_idle(Instance& instance) {
  const std::lock_guard lock(instance.mutex());
  return instance.is_idle();
}

// A daemon that was restarted is a new one: the old instance stays until its comms are closed.
void replace_dead_process_instance(Registry& all) {
  Instance* instance = all.process_instance;
  if (instance == nullptr) return;
  {
    const std::lock_guard lock(instance->mutex());
    if (instance->progress() == Result::kSuccess) return;
  }
  all.instances.erase(instance);
  all.existing.erase(instance);
  all.replaced.emplace_back(instance);
  all.process_instance = nullptr;
  std::erase_if(all.replaced, [](const auto& replaced) { return is_idle(*replaced); });
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

// Of this thread's closes. A host that vanished makes only the closes of its own comms short.
ClosePatience& goodbye_patience(const Comm& comm) {
  thread_local std::map<std::string, ClosePatience> by_host;
  return by_host.try_emplace(comm.peer().host, ClosePatience::kFollowerGoodbyeNs).first->second;
}

// As long as the rest of kCloseWaitNs, and at least as long as a host takes that is there.
void await_goodbye(Instance* instance, std::unique_lock<std::mutex>& lock, Comm* comm,
                   int64_t close_deadline_ns) {
  ClosePatience& patience = goodbye_patience(*comm);
  const int64_t said_ns = monotonic_ns();
  const int64_t least_ns = said_ns + ClosePatience::kFollowerGoodbyeNs;
  const int64_t deadline_ns =
      std::max(std::min(close_deadline_ns, patience.deadline_ns(said_ns)), least_ns);
  bool is_heard = false;
  progress_until(instance, lock, deadline_ns,
                 [&] { return comm->has_failed() || (is_heard = comm->goodbye().is_heard()); });
  if (!comm->has_failed()) patience.on_closed(!is_heard, monotonic_ns());
}

// Small messages of which test() said done are placed first, if the peer does not take long: until
// then a daemon that was restarted gets them again. The goodbye, and the last acknowledgements
// before it, must be out before NCCL may end the process. True when the instance is over.
bool close_in_order(Instance* instance, Comm* comm) {
  const int64_t begun_ns = monotonic_ns();
  const int64_t deadline_ns = begun_ns + kCloseWaitNs;
  std::unique_lock lock(instance->mutex());
  const WakesWorkers wakes_workers(instance);
  thread_local ClosePatience patience;
  const bool has_waited = comm->should_wait_to_close();
  bool is_unplaced = has_waited;
  progress_until(instance, lock, patience.deadline_ns(begun_ns),
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
    Registry& all = registry();
    watch_forks(all);
    // Without the lock: other communicators are finalized meanwhile.
    Instance* instance = open_instance(communicator);
    const std::lock_guard lock(all.mutex);
    *context = keep(all, instance);
    return *context != nullptr ? Result::kSuccess : Result::kSystemError;
  });
}

Result finalize(void* context) {
  return guarded([&] {
    auto* instance = static_cast<Instance*>(context);
    Registry& all = registry();
    {
      const std::lock_guard lock(all.mutex);
      if (all.instances.erase(instance) == 0) return Result::kSuccess;
      if (all.process_instance == instance) all.process_instance = nullptr;
    }
    // Else the last close does it: NCCL 2.28.3 to 2.28.6 finalizes the context of a communicator
    // while a child, made with splitShare or shrinkShare, uses its comms.
    if (finalize_instance(instance)) destroy(instance);
    return Result::kSuccess;
  });
}

Result init_process(nccl_abi::Logger logger, nccl_abi::ProfilerCallback profiler) {
  set_logger(logger);
  set_profiler_callback(profiler);
  return guarded([&] {
    Registry& all = registry();
    watch_forks(all);
    const std::lock_guard one_init(all.init_mutex);
    {
      const std::lock_guard lock(all.mutex);
      replace_dead_process_instance(all);
      if (all.process_instance != nullptr) return Result::kSuccess;
    }
    Instance* instance = open_instance(0);
    const std::lock_guard lock(all.mutex);
    all.process_instance = keep(all, instance);
    return instance != nullptr ? Result::kSuccess : Result::kSystemError;
  });
}

void* process_context() {
  if (refuse_inherited()) return nullptr;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.process_instance;
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
  auto* instance = static_cast<Instance*>(context);
  if (!exists(instance)) return Result::kInvalidUsage;
  return with(instance, [&] {
    ListenComm* made = nullptr;
    const Result result = instance->listen(dev, handle_bytes(handle), &made);
    *listen_comm = made;
    return result;
  });
}

Result connect(void* context, int dev, void* handle, void** send_comm) {
  *send_comm = nullptr;
  if (context == nullptr || refuse_inherited()) return Result::kInvalidUsage;
  auto* instance = static_cast<Instance*>(context);
  if (!exists(instance)) return Result::kInvalidUsage;
  return with(instance, [&] {
    Comm* made = nullptr;
    const Result result = instance->connect(dev, handle_bytes(handle), &made);
    *send_comm = made;
    return result;
  });
}

Result accept(void* listen_comm, void** recv_comm, nccl_abi::NetDeviceHandle**) {
  *recv_comm = nullptr;
  auto* listening = static_cast<ListenComm*>(listen_comm);
  Instance* instance = instance_of(listening);
  return with(instance, [&] {
    Comm* made = nullptr;
    const Result result = instance->accept(listening, &made);
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
  return with(instance_of(comm),
              [&] { return comm->remove_registration(static_cast<const Registration*>(mhandle)); });
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
  Instance* instance = instance_of(comm);
  return guarded([&] {
    if (close_in_order(instance, comm)) destroy(instance);
    return Result::kSuccess;
  });
}

Result close_listen(void* listen_comm) {
  if (listen_comm == nullptr) return Result::kSuccess;
  auto* listening = static_cast<ListenComm*>(listen_comm);
  Instance* instance = instance_of(listening);
  bool is_over = false;
  const Result result = with(instance, [&] {
    instance->close_listen(listening);
    is_over = instance->is_over();
    return Result::kSuccess;
  });
  if (is_over) destroy(instance);
  return result;
}

// What NCCL tells about the next operation does not change anything here.
Result set_net_attr(void*, nccl_abi::NetAttr*) { return Result::kSuccess; }

}  // namespace lyre::nccl_adapter
