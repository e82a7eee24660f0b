#include <dlfcn.h>
#include <signal.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "nccl_adapter/abi/net.h"

/// An NCCL plugin that passes all calls to another one ($LYRE_TEST_FAULTY_BASE) and causes one
/// fault, in the process that receives from rank $LYRE_TEST_FAULT_FROM, once $LYRE_TEST_FAULT_AFTER
/// receives are done: $LYRE_TEST_FAULT = corrupt (a bit of the payload), error (ncclRemoteError),
/// hang (never done), kill. Thread: receives of one process are tested by one thread, its proxy.
namespace {

using namespace lyre::nccl_abi;

NetV11 g_base{};
Logger g_logger = nullptr;

struct Receive {
  void* data;
  int tag;
};
std::unordered_map<void*, Receive> g_receives;
int g_completed = 0;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_time(const Receive& receive) {
  return receive.tag == std::atoi(setting("LYRE_TEST_FAULT_FROM").c_str()) &&
         g_completed >= std::atoi(setting("LYRE_TEST_FAULT_AFTER").c_str());
}

Result init(void** context, uint64_t comm_id, CommConfig* config, Logger logger,
            ProfilerCallback profiler) {
  g_logger = logger;
  return g_base.init(context, comm_id, config, logger, profiler);
}

Result irecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** mhandles,
             void** phandles, void** request) {
  const Result result = g_base.irecv(comm, n, data, sizes, tags, mhandles, phandles, request);
  if (*request != nullptr) g_receives[*request] = {data[0], tags[0]};
  return result;
}

Result cause_fault(const Receive& receive, int bytes) {
  const std::string fault = setting("LYRE_TEST_FAULT");
  if (fault == "kill") ::raise(SIGKILL);
  if (fault == "corrupt" && bytes > 0) static_cast<uint8_t*>(receive.data)[bytes / 2] ^= 1;
  if (fault != "error") return Result::kSuccess;
  g_logger(LogLevel::kWarn, kLogNet, __FILE__, __LINE__, "NET/Faulty : peer 192.0.2.7 is gone");
  return Result::kRemoteError;
}

Result test(void* request, int* done, int* sizes) {
  const auto it = g_receives.find(request);
  if (it != g_receives.end() && is_time(it->second) && setting("LYRE_TEST_FAULT") == "hang") {
    *done = 0;
    return Result::kSuccess;
  }
  int bytes = 0;
  const Result result = g_base.test(request, done, &bytes);
  if (sizes != nullptr && *done != 0) *sizes = bytes;
  if (result != Result::kSuccess || *done == 0 || it == g_receives.end()) return result;
  const Receive receive = it->second;
  g_receives.erase(it);
  ++g_completed;
  return is_time(receive) ? cause_fault(receive, bytes) : Result::kSuccess;
}

NetV11 make_table() {
  void* library = ::dlopen(setting("LYRE_TEST_FAULTY_BASE").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  std::memcpy(&g_base, ::dlsym(library, "ncclNetPlugin_v11"), sizeof(g_base));
  NetV11 table = g_base;
  table.init = init;
  table.irecv = irecv;
  table.test = test;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const NetV11 ncclNetPlugin_v11;
const NetV11 ncclNetPlugin_v11 = make_table();
