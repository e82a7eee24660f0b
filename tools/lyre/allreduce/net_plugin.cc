#include "tools/lyre/allreduce/net_plugin.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "nccl_adapter/abi/net.h"
#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/profiler.h"

namespace lyre::allreduce {
namespace {

using namespace nccl_abi;

std::mutex g_warning_mutex;
std::string g_warning;
std::atomic<bool> g_print_log{false};

__attribute__((format(printf, 5, 6))) void log_line(LogLevel level, unsigned long, const char*, int,
                                                    const char* format, ...) {
  char line[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (g_print_log.load(std::memory_order_relaxed)) std::fprintf(stderr, "%s\n", line);
  if (level != LogLevel::kWarn) return;
  const std::lock_guard lock(g_warning_mutex);
  g_warning = line;
}

/// What all versions have in common, in terms of the version's own table.
template <typename Table, int kAbi>
class TableCalls : public NetPlugin {
 public:
  explicit TableCalls(const Table* table) : table_(table) {}

  int abi() const override { return kAbi; }
  const char* name() const override { return table_->name; }
  nccl_abi::Result devices(int* count) override { return table_->devices(count); }
  nccl_abi::Result get_properties(int dev, NetProperties* out) override {
    typename Table::Properties raw{};
    const nccl_abi::Result result = table_->get_properties(dev, &raw);
    *out = {raw.name != nullptr ? raw.name : "", raw.speed_mbps, raw.ptr_support, raw.comms_max,
            raw.recvs_max};
    return result;
  }
  nccl_abi::Result accept(void* listen_comm, void** recv_comm) override {
    NetDeviceHandle* device = nullptr;
    return table_->accept(listen_comm, recv_comm, &device);
  }
  nccl_abi::Result reg_mr(void* comm, void* data, size_t bytes, void** mhandle) override {
    return table_->reg_mr(comm, data, bytes, kPtrHost, mhandle);
  }
  nccl_abi::Result dereg_mr(void* comm, void* mhandle) override {
    return table_->dereg_mr(comm, mhandle);
  }
  nccl_abi::Result test(void* request, int* done, int* bytes) override {
    return table_->test(request, done, bytes);
  }
  nccl_abi::Result close_send(void* comm) override { return table_->close_send(comm); }
  nccl_abi::Result close_recv(void* comm) override { return table_->close_recv(comm); }
  nccl_abi::Result close_listen(void* comm) override { return table_->close_listen(comm); }

 protected:
  const Table* table_;
};

/// v8 and v9: no profiler, no context.
template <typename Table, int kAbi>
class PlainCalls : public TableCalls<Table, kAbi> {
 public:
  using TableCalls<Table, kAbi>::TableCalls;
  using TableCalls<Table, kAbi>::table_;

  nccl_abi::Result init(uint64_t) override { return table_->init(&log_line); }
  nccl_abi::Result finalize() override { return nccl_abi::Result::kSuccess; }
  nccl_abi::Result listen(int dev, void* handle, void** comm) override {
    return table_->listen(dev, handle, comm);
  }
  nccl_abi::Result connect(int dev, void* handle, void** comm) override {
    NetDeviceHandle* device = nullptr;
    return table_->connect(dev, handle, comm, &device);
  }
};

class CallsV8 final : public PlainCalls<NetV8, 8> {
 public:
  using PlainCalls::PlainCalls;
  nccl_abi::Result isend(void* comm, void* data, size_t bytes, int tag, void* mhandle, void*,
                         void** request) override {
    return table_->isend(comm, data, static_cast<int>(bytes), tag, mhandle, request);
  }
  nccl_abi::Result irecv(void* comm, void* data, size_t bytes, int tag, void* mhandle, void*, bool,
                         void** request) override {
    int size = static_cast<int>(bytes);
    return table_->irecv(comm, 1, &data, &size, &tag, &mhandle, request);
  }
};

void enter_with_hint(bool hint, void** request) {
  *request = hint ? reinterpret_cast<void*>(kOptionalRecvCompletion) : nullptr;
}

class CallsV9 final : public PlainCalls<NetV9, 9> {
 public:
  using PlainCalls::PlainCalls;
  nccl_abi::Result isend(void* comm, void* data, size_t bytes, int tag, void* mhandle, void*,
                         void** request) override {
    return table_->isend(comm, data, bytes, tag, mhandle, request);
  }
  nccl_abi::Result irecv(void* comm, void* data, size_t bytes, int tag, void* mhandle, void*,
                         bool hint, void** request) override {
    enter_with_hint(hint, request);
    return table_->irecv(comm, 1, &data, &bytes, &tag, &mhandle, request);
  }
};

/// v10 and later: profiler handles.
template <typename Table, int kAbi>
class ProfiledCalls : public TableCalls<Table, kAbi> {
 public:
  using TableCalls<Table, kAbi>::TableCalls;
  using TableCalls<Table, kAbi>::table_;

  nccl_abi::Result isend(void* comm, void* data, size_t bytes, int tag, void* mhandle,
                         void* phandle, void** request) override {
    return table_->isend(comm, data, bytes, tag, mhandle, phandle, request);
  }
  nccl_abi::Result irecv(void* comm, void* data, size_t bytes, int tag, void* mhandle,
                         void* phandle, bool hint, void** request) override {
    enter_with_hint(hint, request);
    return table_->irecv(comm, 1, &data, &bytes, &tag, &mhandle, &phandle, request);
  }
};

class CallsV10 final : public ProfiledCalls<NetV10, 10> {
 public:
  using ProfiledCalls::ProfiledCalls;
  nccl_abi::Result init(uint64_t) override {
    return table_->init(&log_line, Profiler::network_callback());
  }
  nccl_abi::Result finalize() override { return nccl_abi::Result::kSuccess; }
  nccl_abi::Result listen(int dev, void* handle, void** comm) override {
    return table_->listen(dev, handle, comm);
  }
  nccl_abi::Result connect(int dev, void* handle, void** comm) override {
    CommConfig config{kTrafficClassUndefined};
    NetDeviceHandle* device = nullptr;
    return table_->connect(dev, &config, handle, comm, &device);
  }
};

/// v11 and v12: a context for each communicator.
template <typename Table, int kAbi>
class ContextCalls final : public ProfiledCalls<Table, kAbi> {
 public:
  using ProfiledCalls<Table, kAbi>::ProfiledCalls;
  using ProfiledCalls<Table, kAbi>::table_;

  nccl_abi::Result init(uint64_t comm_id) override {
    CommConfig config{kTrafficClassUndefined};
    const nccl_abi::Result result =
        table_->init(&context_, comm_id, &config, &log_line, Profiler::network_callback());
    if (result == nccl_abi::Result::kSuccess && table_->set_net_attr != nullptr) {
      NetAttr attr{{-1, -1, -1, -1}, {-1, -1, -1, -1}, UINT_MAX, UINT_MAX, UINT_MAX};
      return table_->set_net_attr(context_, &attr);
    }
    return result;
  }
  nccl_abi::Result finalize() override { return table_->finalize(context_); }
  nccl_abi::Result listen(int dev, void* handle, void** comm) override {
    return table_->listen(context_, dev, handle, comm);
  }
  nccl_abi::Result connect(int dev, void* handle, void** comm) override {
    NetDeviceHandle* device = nullptr;
    return table_->connect(context_, dev, handle, comm, &device);
  }

 private:
  void* context_ = nullptr;
};

using CallsV11 = ContextCalls<NetV11, 11>;
using CallsV12 = ContextCalls<NetV12, 12>;

template <typename Calls, typename Table>
std::unique_ptr<NetPlugin> make_calls(const void* table) {
  return std::make_unique<Calls>(static_cast<const Table*>(table));
}

struct Version {
  int abi;
  const char* symbol;
  std::unique_ptr<NetPlugin> (*make)(const void* table);
};

constexpr std::array kVersions{
    Version{12, "ncclNetPlugin_v12", &make_calls<CallsV12, NetV12>},
    Version{11, "ncclNetPlugin_v11", &make_calls<CallsV11, NetV11>},
    Version{10, "ncclNetPlugin_v10", &make_calls<CallsV10, NetV10>},
    Version{9, "ncclNetPlugin_v9", &make_calls<CallsV9, NetV9>},
    Version{8, "ncclNetPlugin_v8", &make_calls<CallsV8, NetV8>},
};

}  // namespace

std::unique_ptr<NetPlugin> load_plugin(const std::string& path, int abi) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Failure(std::string("cannot load the plugin: ") + ::dlerror());
  for (const Version& version : kVersions) {
    if (abi != 0 && version.abi != abi) continue;
    if (const void* table = ::dlsym(library, version.symbol)) return version.make(table);
  }
  throw Failure(path + " exports no " +
                (abi == 0 ? "ncclNetPlugin_v8 to _v12" : "ncclNetPlugin_v" + std::to_string(abi)));
}

nccl_abi::Logger plugin_logger() { return &log_line; }

std::string last_warning() {
  const std::lock_guard lock(g_warning_mutex);
  return g_warning;
}

void print_plugin_log(bool enabled) { g_print_log.store(enabled, std::memory_order_relaxed); }

void require_success(nccl_abi::Result result, const std::string& what) {
  if (result == nccl_abi::Result::kSuccess) return;
  const std::string warning = last_warning();
  throw Failure(what + ": " + result_name(result) + (warning.empty() ? "" : ": " + warning));
}

}  // namespace lyre::allreduce
