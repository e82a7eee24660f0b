#include "tests/io_contract/dpdk_wire.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace lyre::io::contract {
namespace {

constexpr long kMomentNs = 20'000;
constexpr int kMomentsMax = 1000;

class DpdkWire final : public Wire {
 public:
  PacketMemory& memory(int end) override { return *ends_[end].memory; }
  PacketIo& io(int end) override { return ends_[end].port->queue(0); }
  void pass_time() override {
    const timespec moment{0, kMomentNs};
    nanosleep(&moment, nullptr);
    // A daemon's control thread asks for the links of NICs: their queues do not.
    for (const End& end : ends_) {
      if (end.port) static_cast<void>(end.port->is_link_up());
    }
  }
  ~DpdkWire() override {
    const bool was_whole = ends_[0].port && ends_[1].port;
    ends_[0].port.reset();
    // When one end of a memif has left, the other detects it only after some time.
    for (int i = 0; was_whole && ends_[1].port->is_link_up() && i < kMomentsMax; ++i) pass_time();
    ends_[1].port.reset();
  }

  Status open_end(int index, const WireOptions& options, PortOptions port) {
    auto started = environment();
    if (!started) return started.error();
    io::Backend& dpdk = **started;
    auto memory =
        dpdk.make_memory(static_cast<uint32_t>(index), {.rx_slots = options.rx_slots,
                                                        .mtu_bytes = options.mtu_bytes,
                                                        .devices = {port.device},
                                                        .has_super_packets = port.has_super_packets,
                                                        .tx_packets = options.tx_packets});
    if (!memory) return memory.error();
    ends_[index].memory = std::move(*memory);
    port.mtu_bytes = options.mtu_bytes;
    PacketMemory* const memories[] = {ends_[index].memory.get()};
    auto opened = dpdk.open_port(port, memories);
    if (!opened) return opened.error();
    ends_[index].port = std::move(*opened);
    return Ok{};
  }

 private:
  struct End {
    std::unique_ptr<PacketMemory> memory;
    std::unique_ptr<Port> port;
  };
  End ends_[2];
};

struct ScratchFolder {
  std::string path;
  ScratchFolder() {
    std::string name = std::filesystem::temp_directory_path() / "lyre-io-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

const std::string& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path;
}

Result<io::Backend*> environment(const std::vector<std::string>& nics) {
  static std::unique_ptr<io::Backend> started;
  if (started) return started.get();
  dpdk::EnvironmentOptions options;
  options.file_prefix = "lyre-io-contract-" + std::to_string(getpid());
  options.nics = nics;
  options.is_verbose = std::getenv("LYRE_TEST_DPDK_DEBUG") != nullptr;
  auto made = dpdk::start_environment(options);
  if (!made) return made.error();
  started = std::move(*made);
  if (Status done = started->register_worker_thread(); !done) return done.error();
  return started.get();
}

bool run(const std::string& command) { return std::system((command + " >&2").c_str()) == 0; }

Status enter_own_network() {
  if (unshare(CLONE_NEWNET) != 0) {
    return Error{EPERM, "needs the right to make a network namespace"};
  }
  // Otherwise the kernel would send IPv6 packets on the wires under test.
  run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
  return Ok{};
}

Result<std::unique_ptr<Wire>> open_dpdk_wire(const WireOptions& options, const PortOptions& left,
                                             const PortOptions& right) {
  auto wire = std::make_unique<DpdkWire>();
  if (Status done = wire->open_end(0, options, left); !done) return done.error();
  if (Status done = wire->open_end(1, options, right); !done) return done.error();
  return std::unique_ptr<Wire>(std::move(wire));
}

}  // namespace lyre::io::contract
