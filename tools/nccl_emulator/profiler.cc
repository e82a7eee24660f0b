#include "tools/nccl_emulator/profiler.h"

#include <unistd.h>

#include <utility>

#include "nccl_adapter/abi/profiler.h"
#include "tools/nccl_emulator/failure.h"
#include "tools/nccl_emulator/library.h"
#include "tools/nccl_emulator/plugin_log.h"

namespace lyre::nccl_emulator {
namespace {

using namespace nccl_abi;

constexpr int kFirstAbiWithProfiler = 10;
constexpr int kFirstAbiWithV5 = 11;
constexpr int kNodes = 2;

/// What a net plugin's profiler callback calls.
class NetworkEvents {
 public:
  virtual nccl_abi::Result start(void** event, void* step, int64_t plugin_id, void* data) = 0;
  virtual void stop(void* event) = 0;

 protected:
  ~NetworkEvents() = default;
};

NetworkEvents* g_network_events = nullptr;  // set after the plugin's init, gone before its finalize

nccl_abi::Result on_network_event(void** event, int type, void* phandle, int64_t plugin_id,
                                  void* data) {
  if (g_network_events == nullptr || phandle == nullptr) return nccl_abi::Result::kSuccess;
  switch (static_cast<ProfilerEvent>(type)) {
    case ProfilerEvent::kStart:
      return g_network_events->start(event, static_cast<StepEvent*>(phandle)->event, plugin_id,
                                     data);
    case ProfilerEvent::kStop:
    case ProfilerEvent::kUpdateAndStop:
      g_network_events->stop(*event);
      break;
    case ProfilerEvent::kUpdate:
      break;
  }
  return nccl_abi::Result::kSuccess;
}

nccl_abi::Result call_init(const ProfilerV4& table, void** context, int32_t* mask, uint64_t comm_id,
                           int rank, int ranks) {
  return table.init(context, mask, nullptr, comm_id, kNodes, ranks, rank, plugin_logger());
}

nccl_abi::Result call_init(const ProfilerV5& table, void** context, int32_t* mask, uint64_t comm_id,
                           int rank, int ranks) {
  return table.init(context, comm_id, mask, nullptr, kNodes, ranks, rank, plugin_logger());
}

template <typename Table>
class LoadedProfiler final : public Profiler, private NetworkEvents {
 public:
  using Event = typename Table::Event;

  LoadedProfiler(Library library, const void* table, uint64_t comm_id, int rank, int ranks)
      : library_(std::move(library)), table_(*static_cast<const Table*>(table)), rank_(rank) {
    int32_t mask = 0;
    require_success(call_init(table_, &context_, &mask, comm_id, rank, ranks), "profiler init");
    wants_network_ = (static_cast<uint64_t>(mask) & kProfileNetPlugin) != 0;
    g_network_events = this;
  }
  ~LoadedProfiler() override {
    g_network_events = nullptr;
    if (context_ != nullptr) table_.calls.finalize(context_);  // as NCCL
  }

  void* start_collective(uint64_t number, const char* name, uint64_t elements) override {
    Event event = make_event(kProfileCollective, nullptr);
    event.collective = {.number = number,
                        .function = name,
                        .send_buffer = nullptr,
                        .receive_buffer = nullptr,
                        .count = elements,
                        .root = 0,
                        .datatype = "ncclFloat32",
                        .channels = 1,
                        .warps = 1,
                        .algorithm = "RING",
                        .protocol = "SIMPLE"};
    return start(&event);
  }

  void* start_proxy_op(void* collective, int channel, int peer, bool is_send) override {
    Event event = make_event(kProfileProxyOp, collective);
    event.proxy_op = {.pid = process_,
                      .channel = static_cast<uint8_t>(channel),
                      .peer = peer,
                      .steps = 1,
                      .chunk_bytes = 0,
                      .is_send = is_send ? 1 : 0};
    return start(&event);
  }

  void* start_step(void* proxy_op, uint64_t step) override {
    Event event = make_event(kProfileProxyStep, proxy_op);
    event.proxy_step = {.step = static_cast<int32_t>(step)};
    return start(&event);
  }

  void stop(void* event) override {
    if (event != nullptr) table_.calls.stop_event(event);
  }

 private:
  nccl_abi::Result start(void** event, void* step, int64_t plugin_id, void* data) override {
    *event = nullptr;
    if (!wants_network_) return nccl_abi::Result::kSuccess;
    Event descr = make_event(kProfileNetPlugin, step);
    descr.net_plugin = {.plugin_id = plugin_id, .data = data};
    return table_.calls.start_event(context_, event, &descr);
  }

  Event make_event(uint64_t kind, void* parent) const {
    Event event{};
    event.kind = static_cast<decltype(event.kind)>(kind);
    event.parent = parent;
    event.rank = rank_;
    return event;
  }

  void* start(Event* event) {
    void* handle = nullptr;
    if (!wants_network_) return handle;
    require_success(table_.calls.start_event(context_, &handle, event), "profiler startEvent");
    return handle;
  }

  Library library_;
  const Table& table_;
  int rank_;
  const pid_t process_ = ::getpid();  // NCCL asks once, too
  void* context_ = nullptr;
  bool wants_network_ = false;
};

}  // namespace

nccl_abi::ProfilerCallback Profiler::network_callback() { return &on_network_event; }

std::unique_ptr<Profiler> load_profiler(const std::string& path, int abi, uint64_t comm_id,
                                        int rank, int ranks) {
  if (abi < kFirstAbiWithProfiler) return nullptr;
  // NCCL, too, opens the plugin's library a second time.
  Library library(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return nullptr;
  if (abi >= kFirstAbiWithV5) {
    if (const void* table = ::dlsym(library.get(), "ncclProfiler_v5")) {
      return std::make_unique<LoadedProfiler<ProfilerV5>>(std::move(library), table, comm_id, rank,
                                                          ranks);
    }
  }
  const void* table = ::dlsym(library.get(), "ncclProfiler_v4");
  if (table == nullptr) return nullptr;
  return std::make_unique<LoadedProfiler<ProfilerV4>>(std::move(library), table, comm_id, rank,
                                                      ranks);
}

}  // namespace lyre::nccl_emulator
