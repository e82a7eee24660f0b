#include "nccl_adapter/core/instance.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "nccl_adapter/core/bytes.h"
#include "nccl_adapter/core/log.h"
#include "nccl_adapter/core/random.h"
#include "nccl_adapter/core/status.h"

namespace lyre::nccl_adapter {

using nccl_abi::Result;

std::unique_ptr<Instance> Instance::open(const Settings& settings) {
  const lyre_options options{
      .socket_path = settings.socket_path.empty() ? nullptr : settings.socket_path.c_str(),
      .label = nullptr,
      .arena_bytes = 0};
  lyre_context* context = nullptr;
  const int code = lyre_context_open(&options, &context);
  if (code != 0) {
    log_warn("no Lyre daemon at %s: %s", socket_path_text(settings), lyre_last_error());
    return nullptr;
  }
  return std::unique_ptr<Instance>(new Instance(settings, context));
}

Instance::Instance(const Settings& settings, lyre_context* context)
    : settings_(settings),
      context_(context),
      host_(host_name()),
      // Notes of different processes must not meet in a handle that was copied between them.
      last_note_(get_le<uint64_t>(make_nonce(), 0)) {
  const int count = std::max(0, lyre_ports(context_, nullptr, 0));
  ports_.resize(static_cast<size_t>(count));
  lyre_ports(context_, ports_.data(), count);
  receptions_.resize(ports_.size());
}

Instance::~Instance() {
  for (auto& [key, comm] : comms_) comm->begin_close();
  // Also for comms closed before: a peer that misses our last grant takes its send for lost.
  if (!is_daemon_dead_) lyre_drain(context_, kFinalizeDrainMs);
  for (auto& [key, comm] : comms_) comm->finish_close();
  comms_.clear();
  connectors_.clear();
  receptions_.clear();
  lyre_context_close(context_);
}

bool Instance::is_idle() const {
  return comms_.empty() && connectors_.empty() && listen_count_ == 0;
}

Result Instance::check_device(int dev) const {
  if (dev >= 0 && static_cast<size_t>(dev) < ports_.size()) return Result::kSuccess;
  log_warn("device %d does not exist: the daemon has %zu ports", dev, ports_.size());
  return Result::kInvalidArgument;
}

Result Instance::listen(int dev, HandleBytes bytes, ListenComm** out) {
  *out = nullptr;
  if (const Result result = check_device(dev); result != Result::kSuccess) return result;
  auto& reception = receptions_[static_cast<size_t>(dev)];
  if (reception == nullptr) {
    reception = Reception::open(this, ports_[static_cast<size_t>(dev)]);
    if (reception == nullptr) return Result::kSystemError;
  }
  Handle handle{.port = reception->address().port,
                .pid = static_cast<uint32_t>(::getpid()),
                .nonce = make_nonce(),
                .host = host_};
  const lyre_port& port = ports_[static_cast<size_t>(dev)];
  std::copy(std::begin(port.address), std::end(port.address), handle.address.begin());
  encode(handle, bytes);
  *out = reception->listen(handle.nonce);
  ++listen_count_;
  return Result::kSuccess;
}

void Instance::close_listen(ListenComm* listen_comm) {
  --listen_count_;
  listen_comm->reception()->close(listen_comm);
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

// NCCL calls again with the same, writable handle memory: the note in it finds the state.
Connector* Instance::find_connector(int dev, HandleBytes bytes, const Handle& handle) {
  const auto it = connectors_.find(get_connect_note(bytes));
  if (it != connectors_.end()) return it->second.get();
  if (++last_note_ == 0) ++last_note_;
  lyre_addr local{};
  const lyre_port& port = ports_[static_cast<size_t>(dev)];
  std::copy(std::begin(port.address), std::end(port.address), std::begin(local.address));
  set_connect_note(bytes, last_note_);
  return connectors_.emplace(last_note_, std::make_unique<Connector>(this, local, handle))
      .first->second.get();
}

Result Instance::connect(int dev, HandleBytes bytes, Comm** out) {
  *out = nullptr;
  if (const Result result = check_device(dev); result != Result::kSuccess) return result;
  Handle handle;
  if (const Result result = check_handle(bytes, &handle); result != Result::kSuccess) return result;
  if (const Result result = progress(); result != Result::kSuccess) return result;
  Connector* connector = find_connector(dev, bytes, handle);
  const Connector::Progress step = connector->advance();
  if (step == Connector::Progress::kPending) return Result::kSuccess;
  Result result = Result::kSuccess;
  if (step == Connector::Progress::kFailed) {
    result = connector->result();
  } else {
    std::unique_ptr<Comm> comm = connector->make_comm();
    *out = comm.get();
    comms_.emplace(comm.get(), std::move(comm));
  }
  connectors_.erase(get_connect_note(bytes));
  set_connect_note(bytes, 0);  // the same handle may be connected to again
  return result;
}

Result Instance::accept(ListenComm* listen_comm, Comm** out) {
  *out = nullptr;
  if (const Result result = progress(); result != Result::kSuccess) return result;
  Arrival arrival;
  if (!listen_comm->take(&arrival)) return Result::kSuccess;
  auto comm =
      std::make_unique<RecvComm>(this, std::move(arrival.stream),
                                 Peer{arrival.hello.host, arrival.hello.pid, arrival.address});
  *out = comm.get();
  comms_.emplace(comm.get(), std::move(comm));
  return Result::kSuccess;
}

void Instance::close(Comm* comm) {
  comm->finish_close();
  comms_.erase(comm);
}

Result Instance::progress() {
  if (is_daemon_dead_) return Result::kSystemError;
  const int happened = lyre_poll(context_, 0);
  if (happened < 0) {
    note_daemon_error(happened);
    return Result::kSystemError;
  }
  while (happened > 0) {
    lyre_listener* listener = nullptr;
    lyre_session* session = lyre_next_ready(context_, &listener);
    if (session == nullptr && listener == nullptr) break;
    if (session != nullptr) {
      auto* owner = static_cast<SessionOwner*>(lyre_user(session));
      if (owner != nullptr) owner->on_ready();
      continue;
    }
    for (auto& reception : receptions_) {
      if (reception != nullptr && reception->listener() == listener) reception->on_ready();
    }
  }
  for (auto& reception : receptions_) {
    if (reception != nullptr) reception->expire();
  }
  return Result::kSuccess;
}

bool Instance::note_daemon_error(int code) {
  if (code != LYRE_E_DAEMON && code != LYRE_E_EXPELLED && code != LYRE_E_SHUTDOWN) return false;
  if (!is_daemon_dead_) {
    is_daemon_dead_ = true;
    log_warn("the Lyre daemon at %s is gone: %s", socket_path_text(settings_), lyre_strerror(code));
  }
  return true;
}

}  // namespace lyre::nccl_adapter
