#include "tools/nccl_emulator/net_plugin.h"

#include <climits>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/abi/net.h"
#include "tools/nccl_emulator/failure.h"
#include "tools/nccl_emulator/library.h"
#include "tools/nccl_emulator/plugin_log.h"
#include "tools/nccl_emulator/profiler.h"

namespace lyre::nccl_emulator {
namespace {

using namespace nccl_abi;
using nccl_abi::Result;

/// What NCCL looks for where it has no name of a plugin.
constexpr const char* kLibraryWithoutName = "libnccl-net.so";
/// The version that NCCL 2.28.3 to 2.29.7 take.
constexpr int kAbiOfNcclThatLosesNames = 11;

/// A library, and the name by which NCCL opens it.
struct NamedLibrary {
  Library handle;
  std::string name;
};

/// The entry points of one version. What differs between versions is told from the table's type.
template <typename Table>
class TablePlugin final : public NetPlugin {
 public:
  TablePlugin(NamedLibrary library, int abi, const void* table, Logger logger)
      : library_(std::move(library.handle)),
        library_name_(std::move(library.name)),
        abi_(abi),
        table_(static_cast<const Table*>(table)),
        logger_(logger) {}
  ~TablePlugin() override { (void)library_.release(); }

  int abi() const override { return abi_; }
  const char* name() const override { return table_->name; }
  const std::string& library_name() const override { return library_name_; }

  Result init(uint64_t comm_id) override {
    if constexpr (kHasContext) {
      CommConfig config{kTrafficClassUndefined};
      const Result result =
          table_->init(&context_, comm_id, &config, logger_, Profiler::network_callback());
      if (result != Result::kSuccess || table_->set_net_attr == nullptr) return result;
      NetAttr attr{{-1, -1, -1, -1}, {-1, -1, -1, -1}, UINT_MAX, UINT_MAX, UINT_MAX};
      return table_->set_net_attr(context_, &attr);
    } else if constexpr (kHasProfiler) {
      return table_->init(logger_, Profiler::network_callback());
    } else {
      return table_->init(logger_);
    }
  }

  Result devices(int* count) override { return table_->devices(count); }

  Result get_properties(int dev, NetProperties* out) override {
    typename Table::Properties raw{};
    const Result result = table_->get_properties(dev, &raw);
    if (result != Result::kSuccess) return result;
    *out = {.name = raw.name != nullptr ? raw.name : "",
            .has_pci_path = raw.pci_path != nullptr,
            .ptr_support = raw.ptr_support,
            .speed_mbps = raw.speed_mbps,
            .latency_us = raw.latency_us,
            .comms_max = raw.comms_max,
            .recvs_max = raw.recvs_max};
    if constexpr (requires { raw.vprops; }) {
      out->p2p_bytes_max = raw.p2p_bytes_max;
      out->vdevice_size = raw.vprops.ndevs;
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
    } else if constexpr (kHasProfiler) {
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

  Result isend(void* comm, const Message& message, void** request) override {
    const auto& [data, bytes, tag, mhandle, phandle] = message;
    if constexpr (kHasProfiler) {
      return table_->isend(comm, data, bytes, tag, mhandle, phandle, request);
    } else {
      return table_->isend(comm, data, static_cast<Size>(bytes), tag, mhandle, request);
    }
  }

  Result irecv(void* comm, const Message& message, void** request) override {
    auto [data, bytes, tag, mhandle, phandle] = message;
    Size size = static_cast<Size>(bytes);
    return irecv(comm, 1, {&data, &size, &tag, &mhandle, &phandle}, request);
  }

  Result irecv_group(void* comm, std::span<const Message> messages, void** request) override {
    std::vector<void*> data;
    std::vector<Size> sizes;
    std::vector<int> tags;
    std::vector<void*> mhandles;
    std::vector<void*> phandles;
    for (const Message& message : messages) {
      data.push_back(message.data);
      sizes.push_back(static_cast<Size>(message.bytes));
      tags.push_back(message.tag);
      mhandles.push_back(message.mhandle);
      phandles.push_back(message.phandle);
    }
    const int count = static_cast<int>(messages.size());
    return irecv(comm, count,
                 {data.data(), sizes.data(), tags.data(), mhandles.data(), phandles.data()},
                 request);
  }

  Result iflush(void* comm, void* data, void** request) override {
    int size = 0;
    void* mhandle = nullptr;
    return table_->iflush(comm, 1, &data, &size, &mhandle, request);
  }

  Result test(void* request, int* done, int* bytes) override {
    return table_->test(request, done, bytes);
  }
  Result close_send(void* comm) override { return table_->close_send(comm); }
  Result close_recv(void* comm) override { return table_->close_recv(comm); }
  Result close_listen(void* comm) override { return table_->close_listen(comm); }

  Result finalize() override {
    if constexpr (kHasContext) return table_->finalize(context_);
    return Result::kSuccess;
  }
  void unload() override {
    library_.reset();
    if (abi_ != kAbiOfNcclThatLosesNames) return;
    if (!keeps_plugin(std::getenv(kPluginUsersSetting))) library_name_.clear();
  }

 private:
  /// v11: a context for each communicator.
  static constexpr bool kHasContext = requires(const Table& table) { table.finalize; };
  /// v10: a profiler's callback in init, its handles in isend and irecv, CommConfig in connect.
  static constexpr bool kHasProfiler =
      !std::is_same_v<decltype(Table::isend), decltype(NetV8::isend)> &&
      !std::is_same_v<decltype(Table::isend), decltype(NetV9::isend)>;
  using Size = std::conditional_t<std::is_same_v<Table, NetV8>, int, size_t>;
  struct Buffers {
    void** data;
    Size* sizes;
    int* tags;
    void** mhandles;
    void** phandles;
  };

  Result irecv(void* comm, int count, const Buffers& buffers, void** request) {
    const auto& [data, sizes, tags, mhandles, phandles] = buffers;
    if constexpr (kHasProfiler) {
      return table_->irecv(comm, count, data, sizes, tags, mhandles, phandles, request);
    } else {
      return table_->irecv(comm, count, data, sizes, tags, mhandles, request);
    }
  }

  Library library_;
  std::string library_name_;
  int abi_;
  const Table* table_;
  Logger logger_;
  void* context_ = nullptr;
};

template <typename Table>
std::unique_ptr<NetPlugin> make_plugin(NamedLibrary library, int abi, const void* table,
                                       Logger logger) {
  return std::make_unique<TablePlugin<Table>>(std::move(library), abi, table, logger);
}

struct Version {
  int abi;
  const char* symbol;
  std::unique_ptr<NetPlugin> (*make)(NamedLibrary library, int abi, const void* table,
                                     Logger logger);
};

constexpr std::array kVersions{
    Version{12, "ncclNetPlugin_v12", &make_plugin<NetV12>},
    Version{11, "ncclNetPlugin_v11", &make_plugin<NetV11>},
    Version{10, "ncclNetPlugin_v10", &make_plugin<NetV10>},
    Version{9, "ncclNetPlugin_v9", &make_plugin<NetV9>},
    Version{8, "ncclNetPlugin_v8", &make_plugin<NetV8>},
};

}  // namespace

std::unique_ptr<NetPlugin> load_net_plugin(const std::string& path, int abi) {
  const char* name = path.empty() ? kLibraryWithoutName : path.c_str();
  Library library(::dlopen(name, RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) throw Failure(std::string("cannot load the plugin: ") + ::dlerror());
  for (const Version& version : kVersions) {
    if (abi != 0 && version.abi != abi) continue;
    if (const void* table = ::dlsym(library.get(), version.symbol)) {
      return version.make({std::move(library), path}, version.abi, table, plugin_logger());
    }
  }
  throw Failure(std::string(name) + " exports no " +
                (abi == 0 ? "ncclNetPlugin_v8 to _v12" : "ncclNetPlugin_v" + std::to_string(abi)));
}

std::unique_ptr<NetPlugin> use_net_table(int abi, const void* table, Logger logger) {
  for (const Version& version : kVersions) {
    if (version.abi == abi) return version.make({}, abi, table, logger);
  }
  throw Failure("there is no plugin ABI v" + std::to_string(abi) + " here");
}

void require_success(Result result, const std::string& what) {
  if (result == Result::kSuccess) return;
  const std::string warning = last_warning();
  throw Failure(what + ": " + result_name(result) + (warning.empty() ? "" : ": " + warning));
}

}  // namespace lyre::nccl_emulator
