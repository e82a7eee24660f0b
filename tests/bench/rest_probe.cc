/// What the machine takes for rest when no daemon is there, beside which a daemon's figures stand:
///
///   rest_probe answer DEVICE spin|block CORE   answers pings on a packet socket until it is ended;
///                                              says "ready" first
///   rest_probe sleep SECONDS CORE              sleeps as an idle worker does whose ports cannot
///                                              wake it, and nothing else; prints JSON

#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netpacket/packet.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "daemon/base/daemon_limits.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"
#include "tests/bench/probe.h"

namespace lyre {
namespace {

constexpr unsigned kAnswerSecondsMax = 60;
constexpr size_t kFrameBytesMax = 2048;
/// Offsets in a frame whose IPv4 header has no options.
constexpr size_t kProtocol = wire::kEthernetHeaderBytes + 9;
constexpr size_t kAddresses = wire::kEthernetHeaderBytes + 12;
constexpr size_t kIcmp = wire::kEthernetHeaderBytes + 20;
constexpr size_t kChecksum = kIcmp + 2;

int packet_socket(const char* device) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETHERTYPE_IP);  // shows what comes in only
  address.sll_ifindex = static_cast<int>(::if_nametoindex(device));
  const int fd = ::socket(AF_PACKET, SOCK_RAW, 0);
  if (fd < 0 || address.sll_ifindex == 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail(std::string("no packet socket on ") + device + ": " + std::strerror(errno));
  }
  return fd;
}

/// Makes an echo request its own answer; false for anything else.
bool turn_round(uint8_t* frame, ssize_t bytes) {
  if (bytes < static_cast<ssize_t>(kIcmp + sizeof(icmphdr)) || frame[kProtocol] != IPPROTO_ICMP ||
      frame[kIcmp] != ICMP_ECHO) {
    return false;
  }
  std::swap_ranges(frame, frame + 6, frame + 6);
  std::swap_ranges(frame + kAddresses, frame + kAddresses + 4, frame + kAddresses + 4);
  frame[kIcmp] = ICMP_ECHOREPLY;
  // RFC 1624: the sum is less by the type, its complement more by as much.
  const uint32_t sum = wire::read_be16(frame + kChecksum) + (ICMP_ECHO << 8);
  wire::write_be16(frame + kChecksum, static_cast<uint16_t>(sum + (sum >> 16)));
  return true;
}

[[noreturn]] void answer(const char* device, bool must_spin) {
  ::alarm(kAnswerSecondsMax);
  const int fd = packet_socket(device);
  std::printf("ready\n");
  std::fflush(stdout);
  uint8_t frame[kFrameBytesMax];
  while (true) {
    const ssize_t bytes = ::recv(fd, frame, sizeof frame, must_spin ? MSG_DONTWAIT : 0);
    if (turn_round(frame, bytes) && ::send(fd, frame, static_cast<size_t>(bytes), 0) != bytes) {
      fail(std::string("an answer was not sent: ") + std::strerror(errno));
    }
  }
}

/// As WorkerThreads does: the same timer slack, one descriptor, the same call.
void sleep_again_and_again(double seconds) {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlack.value, 0, 0, 0);
  const int epoll = ::epoll_create1(0);
  epoll_event bell{.events = EPOLLIN | EPOLLET, .data = {}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, ::eventfd(0, 0), &bell) != 0) fail("no descriptor");
  const timespec limit{.tv_sec = 0, .tv_nsec = kUnsureSleepIdle.value};
  const int64_t begun = now_ns();
  const int64_t used_before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  const auto duration_ns = static_cast<int64_t>(seconds * 1e9);
  int64_t sleeps = 0;
  int64_t spent_ns = 0;
  for (; spent_ns < duration_ns; spent_ns = now_ns() - begun) {
    epoll_event events[16];
    ::epoll_pwait2(epoll, events, std::size(events), &limit, nullptr);
    ++sleeps;
  }
  const auto used = static_cast<double>(now_ns(CLOCK_PROCESS_CPUTIME_ID) - used_before);
  const auto spent = static_cast<double>(spent_ns);
  std::printf("{\"percent_of_core\": %.2f, \"sleeps_per_s\": %.0f}\n", 100 * used / spent,
              static_cast<double>(sleeps) * 1e9 / spent);
}

}  // namespace
}  // namespace lyre

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const std::string_view how = argc > 3 ? argv[3] : "";
  if (verb == "answer" && argc == 5 && (how == "spin" || how == "block")) {
    lyre::take_core(std::atoi(argv[4]));
    lyre::answer(argv[2], how == "spin");
  }
  if (verb != "sleep" || argc != 4) {
    lyre::fail("usage: rest_probe answer DEVICE spin|block CORE, or rest_probe sleep SECONDS CORE");
  }
  lyre::take_core(std::atoi(argv[3]));
  lyre::sleep_again_and_again(std::atof(argv[2]));
}
