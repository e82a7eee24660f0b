/// How long a daemon at the other end of a memif wire takes to answer after a rest: `arp_probe
/// SOCKET ADDRESS CORE COUNT` asks for the MAC address of ADDRESS, COUNT times, 0.1 s apart, and
/// prints a JSON list of microseconds. The daemon alone answers ARP, and this process spins while
/// it waits, so that one thread wakes up in that time and no other.

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "stack/base/check.h"
#include "stack/io/dpdk/environment.h"
#include "stack/link/framing.h"
#include "tests/bench/probe.h"

namespace lyre {
namespace {

constexpr uint32_t kMtuBytes = 1500;
constexpr size_t kBurst = 32;
constexpr useconds_t kRestUs = 100'000;
constexpr int64_t kAnswerNs = 1'000'000'000;
/// A driver that is between stop and start needs a moment of peace.
constexpr useconds_t kRestartUs = 500'000;
constexpr int kRestartsMax = 40;

class Probe {
 public:
  Probe(io::PacketMemory& memory, io::Port& port, IpAddress target)
      : memory_(memory), port_(port), io_(port.queue(0)), target_(target) {}

  void wait_for_link() {
    for (int i = 0; !port_.is_link_up(); ++i) {
      if (i == kRestartsMax) fail("the link stays down");
      ::usleep(kRestartUs);
      if (!port_.is_link_up() && port_.needs_restart())
        static_cast<void>(io::restart_at_once(port_));
    }
  }
  /// Units: ns; 0 when no host answered.
  int64_t answer_ns() {
    while (take_answer()) {
    }
    const int64_t begun = now_ns();
    ask();
    while (now_ns() - begun < kAnswerNs) {
      if (take_answer()) return now_ns() - begun;
    }
    return 0;
  }

 private:
  void ask() {
    io::PacketBuf* packet = nullptr;
    LYRE_CHECK(memory_.alloc_tx({&packet, 1}) == 1);
    const MacAddress mac = io_.capabilities().mac;
    link::write_arp_frame(*packet, {.source = mac, .destination = kMacBroadcast},
                          {.sender_mac = mac, .sender_ip = kOwn, .target_ip = target_});
    if (io_.tx_burst({&packet, 1}) == 0) memory_.release({&packet, 1});
  }
  bool take_answer() {
    io::PacketBuf* burst[kBurst];
    const size_t count = io_.rx_burst(burst);
    bool is_answer = false;
    for (size_t i = 0; i < count; ++i) {
      Drop drop{};
      const auto arp = wire::parse_arp(burst[i]->bytes().subspan(wire::kEthernetHeaderBytes), drop);
      is_answer |= arp && arp->operation == wire::ArpOperation::kReply && arp->sender_ip == target_;
    }
    memory_.release({burst, count});
    return is_answer;
  }

  static constexpr IpAddress kOwn = IpAddress::v4(0x0a090009);
  io::PacketMemory& memory_;
  io::Port& port_;
  io::PacketIo& io_;
  IpAddress target_;
};

void run(const std::string& socket, IpAddress target, int core, int count) {
  auto environment =
      io::dpdk::start_environment({.file_prefix = "lyre-arp-probe-" + std::to_string(::getpid())});
  if (!environment) fail(environment.error().text);
  const std::string device = "net_memif0,role=client,socket-abstract=no,socket=" + socket;
  auto memory = (*environment)->make_memory(0, {.mtu_bytes = kMtuBytes, .devices = {device}});
  if (!memory) fail(memory.error().text);
  io::PacketMemory* const memories[] = {memory->get()};
  auto port = (*environment)->open_port({.device = device, .mtu_bytes = kMtuBytes}, memories);
  if (!port) fail(port.error().text);
  if (Status done = (*environment)->register_worker_thread(); !done) fail(done.error().text);
  take_core(core);
  Probe probe(**memory, **port, target);
  probe.wait_for_link();
  if (probe.answer_ns() == 0) fail("no host answers");
  for (int i = 0; i < count; ++i) {
    ::usleep(kRestUs);
    const int64_t ns = probe.answer_ns();
    if (ns == 0) fail("no answer within a second");
    std::printf("%s%.1f", i == 0 ? "[" : ", ", static_cast<double>(ns) / 1000);
  }
  std::printf("]\n");
  std::fflush(stdout);
  ::_exit(0);  // DPDK is never torn down; the kernel does that
}

}  // namespace
}  // namespace lyre

int main(int argc, char** argv) {
  in_addr target{};
  if (argc != 5 || ::inet_pton(AF_INET, argv[2], &target) != 1) {
    lyre::fail("usage: arp_probe SOCKET ADDRESS CORE COUNT");
  }
  const auto address = lyre::IpAddress::v4(ntohl(target.s_addr));
  lyre::run(argv[1], address, std::atoi(argv[3]), std::atoi(argv[4]));
}
