#include "tests/adapter/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include "nccl_adapter/abi/net.h"

namespace lyre::test {
namespace {

using namespace lyre::nccl_abi;

struct Line {
  LogLevel level;
  std::string text;
};
std::mutex g_lines_mutex;
std::vector<Line> g_lines;

void logger(LogLevel level, unsigned long, const char*, int, const char* format, ...) {
  char line[2048];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  const std::lock_guard lock(g_lines_mutex);
  g_lines.push_back({level, line});
}

template <typename Table>
class VersionedPlugin final : public Plugin {
 public:
  static constexpr bool kHasContext = requires(const Table& t) { t.finalize; };
  static constexpr bool kHasConfig =
      std::is_same_v<decltype(Table::connect), decltype(NetV10::connect)>;
  static constexpr bool kHasPhandle =
      !std::is_same_v<decltype(Table::isend), decltype(NetV8::isend)> &&
      !std::is_same_v<decltype(Table::isend), decltype(NetV9::isend)>;
  using Size = std::conditional_t<std::is_same_v<Table, NetV8>, int, size_t>;

  VersionedPlugin(void* library, const Table* table) : library_(library), table_(table) {}
  ~VersionedPlugin() override { unload(); }

  Result init() override {
    if constexpr (kHasContext) {
      CommConfig config{kTrafficClassUndefined};
      return table_->init(&context_, 0x1234, &config, logger, nullptr);
    } else if constexpr (kHasConfig) {
      return table_->init(logger, nullptr);
    } else {
      return table_->init(logger);
    }
  }

  Result devices(int* count) override { return table_->devices(count); }

  Result properties(int dev, PluginProperties* out) override {
    typename Table::Properties props{};
    const Result result = table_->get_properties(dev, &props);
    if (result != Result::kSuccess) return result;
    out->name = props.name;
    out->has_pci_path = props.pci_path != nullptr;
    out->ptr_support = props.ptr_support;
    out->speed_mbps = props.speed_mbps;
    out->latency_us = props.latency_us;
    out->recvs_max = props.recvs_max;
    out->comms_max = props.comms_max;
    out->p2p_bytes_max = kNetBytesMaxV8;
    if constexpr (requires { props.vprops; }) {
      out->p2p_bytes_max = props.p2p_bytes_max;
      out->device_count = props.vprops.ndevs;
    }
    return result;
  }

  Result listen(int dev, void* handle, void** listen_comm) override {
    if constexpr (kHasContext) {
      return table_->listen(context_, dev, handle, listen_comm);
    } else {
      return table_->listen(dev, handle, listen_comm);
    }
  }

  Result connect(int dev, void* handle, void** send_comm) override {
    NetDeviceHandle* device = nullptr;
    if constexpr (kHasContext) {
      return table_->connect(context_, dev, handle, send_comm, &device);
    } else if constexpr (kHasConfig) {
      CommConfig config{kTrafficClassUndefined};
      return table_->connect(dev, &config, handle, send_comm, &device);
    } else {
      return table_->connect(dev, handle, send_comm, &device);
    }
  }

  Result accept(void* listen_comm, void** recv_comm) override {
    NetDeviceHandle* device = nullptr;
    return table_->accept(listen_comm, recv_comm, &device);
  }
  Result reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle) override {
    return table_->reg_mr(comm, data, bytes, type, mhandle);
  }
  Result dereg_mr(void* comm, void* mhandle) override { return table_->dereg_mr(comm, mhandle); }

  Result isend(void* comm, const void* data, size_t bytes, void* mhandle, void** request) override {
    void* pointer = const_cast<void*>(data);
    if constexpr (kHasPhandle) {
      return table_->isend(comm, pointer, bytes, 0, mhandle, nullptr, request);
    } else {
      return table_->isend(comm, pointer, static_cast<Size>(bytes), 0, mhandle, request);
    }
  }

  Result irecv(void* comm, void* data, size_t bytes, void** request) override {
    Size size = static_cast<Size>(bytes);
    int tag = 0;
    void* mhandle = nullptr;
    void* phandle = nullptr;
    if constexpr (kHasPhandle) {
      return table_->irecv(comm, 1, &data, &size, &tag, &mhandle, &phandle, request);
    } else {
      return table_->irecv(comm, 1, &data, &size, &tag, &mhandle, request);
    }
  }

  Result iflush(void* comm, void* data, void** request) override {
    int size = 0;
    void* mhandle = nullptr;
    return table_->iflush(comm, 1, &data, &size, &mhandle, request);
  }

  Result test(void* request, int* done, int* sizes) override {
    return table_->test(request, done, sizes);
  }
  Result close_send(void* comm) override { return table_->close_send(comm); }
  Result close_recv(void* comm) override { return table_->close_recv(comm); }
  Result close_listen(void* comm) override { return table_->close_listen(comm); }

  Result finalize() override {
    if constexpr (kHasContext) return table_->finalize(context_);
    return Result::kSuccess;
  }

  void unload() override {
    if (library_ != nullptr) ::dlclose(library_);
    library_ = nullptr;
  }

 private:
  void* library_;
  const Table* table_;
  void* context_ = nullptr;
};

template <typename Table>
std::unique_ptr<Plugin> load_table(void* library, const char* symbol) {
  const void* table = ::dlsym(library, symbol);
  if (table == nullptr) throw std::runtime_error(std::string("no ") + symbol);
  return std::make_unique<VersionedPlugin<Table>>(library, static_cast<const Table*>(table));
}

}  // namespace

std::unique_ptr<Plugin> Plugin::load(int abi) {
  const char* path = std::getenv("LYRE_TEST_PLUGIN");
  if (path == nullptr) throw std::runtime_error("LYRE_TEST_PLUGIN is not set");
  // As NCCL opens it.
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  switch (abi) {
    case 8:
      return load_table<NetV8>(library, "ncclNetPlugin_v8");
    case 9:
      return load_table<NetV9>(library, "ncclNetPlugin_v9");
    case 10:
      return load_table<NetV10>(library, "ncclNetPlugin_v10");
    case 11:
      return load_table<NetV11>(library, "ncclNetPlugin_v11");
    case 12:
      return load_table<NetV12>(library, "ncclNetPlugin_v12");
    default:
      throw std::runtime_error("no such ABI version");
  }
}

std::vector<std::string> logged_lines(bool with_info) {
  const std::lock_guard lock(g_lines_mutex);
  std::vector<std::string> lines;
  for (const Line& line : g_lines) {
    if (with_info || line.level == LogLevel::kWarn) lines.push_back(line.text);
  }
  return lines;
}

bool has_logged(const std::string& text) { return count_logged(text) > 0; }

size_t count_logged(const std::string& text) {
  const std::vector<std::string> lines = logged_lines();
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
    return line.find(text) != std::string::npos;
  }));
}

std::string logged_text() {
  std::string all = "logged:";
  for (const std::string& line : logged_lines(true)) all += "\n  " + line;
  return all;
}

}  // namespace lyre::test
