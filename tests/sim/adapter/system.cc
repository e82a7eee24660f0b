#include "tests/sim/adapter/system.h"

#include <cstdint>
#include <map>
#include <utility>

#include "nccl_adapter/daemon_link/progress_thread.h"
#include "nccl_adapter/daemon_link/system.h"
#include "nccl_adapter/plugin/properties.h"
#include "nccl_adapter/transport/verbs/library.h"
#include "tests/sim/adapter/rdma.h"

namespace lyre::adapter_sim {
namespace {

System* g_system = nullptr;
std::map<uint32_t, nccl_adapter::HostPatience> g_host_patience;  // by process
std::map<uint32_t, nccl_adapter::Shortage> g_shortages;          // the same

}  // namespace

// What a process keeps for its life begins anew with each world.
void set_system(System* system) {
  g_system = system;
  g_host_patience.clear();
  g_shortages.clear();
  nccl_adapter::set_known_ports({}, {}, 0);
}

}  // namespace lyre::adapter_sim

namespace lyre::nccl_adapter {

using adapter_sim::g_host_patience;
using adapter_sim::g_shortages;
using adapter_sim::g_system;

int64_t monotonic_ns() { return g_system->now_ns(); }
void sleep_ns(int64_t ns) { g_system->sleep(ns); }
void yield_core() { g_system->sleep(0); }
void wait_readable(int, int, int64_t ns) { g_system->sleep(ns); }
Nonce make_nonce() { return g_system->nonce(); }
std::string host_name() { return g_system->host_name(); }
const VerbsApi* load_verbs(std::string* why) {
  *why = "the simulated hosts have none";
  return adapter_sim::rdma() != nullptr ? &adapter_sim::rdma_api() : nullptr;
}
uint32_t process_id() { return g_system->process_id(); }
HostPatience& host_patience() { return g_host_patience[process_id()]; }
Shortage& shortage() { return g_shortages[process_id()]; }

// An event of virtual time takes the thread's place.
ProgressThread::ProgressThread(std::function<void()> work) : work_(std::move(work)) {
  g_system->set_progress(this, &work_);
}

ProgressThread::~ProgressThread() { g_system->set_progress(this, nullptr); }

}  // namespace lyre::nccl_adapter
