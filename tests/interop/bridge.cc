// A wire between two network devices that delays, loses, reorders, duplicates and marks TCP
// packets, from a seed: `interop_bridge LEFT RIGHT --there loss_ppm=20000,delay_us=500 --back
// delay_us=500`. Prints "bridging" when it runs, and its counters as JSON when it ends: by SIGTERM,
// or by the time limit.

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "stack/io/sim/frame.h"
#include "stack/io/sim/path.h"

namespace lyre::interop {
namespace {

using io::sim::Fate;
using io::sim::is_tcp;
using io::sim::mark_congestion;
using io::sim::Path;
using io::sim::PathOptions;

constexpr uint32_t kFrameBytesMax = 9216 + 32;
constexpr size_t kBurstFrames = 64;
constexpr size_t kFramesMax = 65'536;  ///< in flight in one direction
constexpr int kSocketBufferBytes = 64 << 20;

volatile std::sig_atomic_t g_is_asked_to_stop = 0;

Nanos monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(now.tv_sec) + nanos(now.tv_nsec);
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

/// All frames of one network device.
class Device {
 public:
  explicit Device(const std::string& name)
      : fd_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    if (fd_ < 0) fail("packet socket");
    set(SOL_SOCKET, SO_RCVBUFFORCE, kSocketBufferBytes);
    set(SOL_SOCKET, SO_SNDBUFFORCE, kSocketBufferBytes);
    set(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set(SOL_PACKET, PACKET_QDISC_BYPASS, 1);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(::if_nametoindex(name.c_str()));
    if (address.sll_ifindex == 0) fail(name);
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail(name);
  }
  ~Device() { ::close(fd_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  int fd() const { return fd_; }
  /// Frames that the kernel dropped here for want of room.
  uint64_t missed() const {
    tpacket_stats stats{};
    socklen_t bytes = sizeof stats;
    return ::getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) == 0 ? stats.tp_drops
                                                                                 : 0;
  }

 private:
  void set(int level, int option, int value) {
    if (::setsockopt(fd_, level, option, &value, sizeof value) != 0) fail("packet socket's option");
  }
  int fd_;
};

struct Frame {
  Nanos due;
  uint64_t order = 0;
  std::vector<uint8_t> bytes;
};

struct IsLater {
  bool operator()(const Frame* a, const Frame* b) const {
    return a->due != b->due ? a->due > b->due : a->order > b->order;
  }
};

/// Of a direction: its path, and the one that each flow has for itself behind it.
struct WireOptions {
  PathOptions path;
  PathOptions flow;  ///< rate and queue; a rate of 0: no limit
};

/// What networks spread and limit by: addresses and ports of a TCP frame, which has no IP options.
std::string flow_of(std::span<const uint8_t> frame) {
  const bool is_v4 = io::sim::is_ipv4(frame);
  const auto key = is_v4 ? frame.subspan(io::sim::kIpAt + 12) : frame.subspan(io::sim::kIpAt + 8);
  const size_t bytes = std::min<size_t>(key.size(), is_v4 ? 12 : 36);
  return {key.begin(), key.begin() + static_cast<ptrdiff_t>(bytes)};
}

/// One direction.
class Direction {
 public:
  Direction(const Device& from, const Device& to, const WireOptions& options, uint64_t seed)
      : from_(from),
        to_(to),
        path_(options.path, seed),
        flow_options_(options.flow),
        received_(kBurstFrames) {
    for (size_t i = 0; i < kBurstFrames; ++i) {
      received_[i].resize(kFrameBytesMax);
      receive_parts_[i] = {.iov_base = received_[i].data(), .iov_len = kFrameBytesMax};
      receive_heads_[i].msg_hdr.msg_iov = &receive_parts_[i];
      receive_heads_[i].msg_hdr.msg_iovlen = 1;
    }
  }
  ~Direction() {
    for (; !under_way_.empty(); under_way_.pop()) delete under_way_.top();
    for (const Frame* frame : free_) delete frame;
  }
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;

  void receive() {
    const int count =
        ::recvmmsg(from_.fd(), receive_heads_.data(), kBurstFrames, MSG_DONTWAIT, nullptr);
    const Nanos now = monotonic_now();
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      accept({received_[at].data(), receive_heads_[at].msg_len}, now);
    }
  }
  /// Sends the frames that are due.
  void send() {
    const Nanos now = monotonic_now();
    while (!under_way_.empty() && under_way_.top()->due <= now) {
      if (!send_burst(now)) return;
    }
  }
  Nanos next_deadline() const { return under_way_.empty() ? kNever : under_way_.top()->due; }

  nlohmann::json counters() const {
    const io::sim::PathCounters& path = path_.counters();
    return {{"carried", path.carried},       {"lost", path.lost},
            {"overflowed", path.overflowed}, {"duplicated", path.duplicated},
            {"reordered", path.reordered},   {"corrupted", path.corrupted},
            {"marked", path.marked},         {"sent", sent_count_},
            {"refused", refused_count_},     {"missed", from_.missed()},
            {"flows", flows_.size()},        {"flows_overflowed", flows_overflowed()}};
  }

 private:
  void accept(std::span<uint8_t> bytes, Nanos now) {
    const auto length = static_cast<uint32_t>(bytes.size());
    // Neighbour discovery is not under test here, so it passes unchanged.
    const Fate fate = is_tcp(bytes) ? path_.on_frame(length, now) : path_.pass(length, now);
    if (fate.corrupt_bit != Fate::kNoBit) {
      bytes[fate.corrupt_bit / 8] ^= static_cast<uint8_t>(1u << (fate.corrupt_bit % 8));
    }
    if (fate.is_marked) mark_congestion(bytes);
    for (uint32_t i = 0; i < fate.copies; ++i) limit_flow(bytes, fate.due[i]);
  }
  void limit_flow(std::span<const uint8_t> bytes, Nanos now) {
    if (flow_options_.rate_bytes_per_s == 0 || !is_tcp(bytes)) return put_under_way(bytes, now);
    Path& flow = flows_.try_emplace(flow_of(bytes), flow_options_, 0).first->second;
    const Fate fate = flow.on_frame(static_cast<uint32_t>(bytes.size()), now);
    if (fate.copies > 0) put_under_way(bytes, fate.due[0]);
  }
  uint64_t flows_overflowed() const {
    uint64_t count = 0;
    for (const auto& [key, flow] : flows_) count += flow.counters().overflowed;
    return count;
  }
  void put_under_way(std::span<const uint8_t> bytes, Nanos due) {
    if (under_way_.size() == kFramesMax) {
      ++refused_count_;
      return;
    }
    Frame* frame = nullptr;
    if (free_.empty()) {
      frame = new Frame;
    } else {
      frame = free_.back();
      free_.pop_back();
    }
    frame->due = due;
    frame->order = order_++;
    frame->bytes.assign(bytes.begin(), bytes.end());
    under_way_.push(frame);
  }
  /// Returns false when the device has no room.
  bool send_burst(Nanos now) {
    std::array<Frame*, kBurstFrames> burst{};
    size_t count = 0;
    while (count < kBurstFrames && !under_way_.empty() && under_way_.top()->due <= now) {
      Frame* frame = under_way_.top();
      under_way_.pop();
      send_parts_[count] = {.iov_base = frame->bytes.data(), .iov_len = frame->bytes.size()};
      send_heads_[count].msg_hdr = {};
      send_heads_[count].msg_hdr.msg_iov = &send_parts_[count];
      send_heads_[count].msg_hdr.msg_iovlen = 1;
      burst[count++] = frame;
    }
    const int taken = ::sendmmsg(to_.fd(), send_heads_.data(), static_cast<unsigned>(count), 0);
    const auto sent = static_cast<size_t>(std::max(taken, 0));
    sent_count_ += sent;
    for (size_t i = 0; i < count; ++i) {
      i < sent ? free_.push_back(burst[i]) : under_way_.push(burst[i]);
    }
    if (sent > 0 || errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return sent == count;
    // A device that is down loses its frames, like a disconnected cable.
    for (size_t i = 0; i < count; ++i) {
      free_.push_back(under_way_.top());
      under_way_.pop();
      ++refused_count_;
    }
    return true;
  }

  const Device& from_;
  const Device& to_;
  Path path_;
  PathOptions flow_options_;
  std::map<std::string, Path> flows_;
  uint64_t order_ = 0;
  uint64_t sent_count_ = 0;
  uint64_t refused_count_ = 0;
  std::priority_queue<Frame*, std::vector<Frame*>, IsLater> under_way_;
  std::vector<Frame*> free_;
  std::vector<std::vector<uint8_t>> received_;
  std::array<iovec, kBurstFrames> receive_parts_{};
  std::array<mmsghdr, kBurstFrames> receive_heads_{};
  std::array<iovec, kBurstFrames> send_parts_{};
  std::array<mmsghdr, kBurstFrames> send_heads_{};
};

/// Parses "loss_ppm=1000,delay_us=500". Fails: throws std::runtime_error.
WireOptions parse_wire(const std::string& text) {
  WireOptions wire;
  PathOptions& out = wire.path;
  const std::map<std::string, std::function<void(uint64_t)>> keys = {
      {"delay_us", [&](uint64_t n) { out.delay = micros(static_cast<int64_t>(n)); }},
      {"rate_mbps", [&](uint64_t n) { out.rate_bytes_per_s = n * 125'000; }},
      {"queue_kib", [&](uint64_t n) { out.queue_bytes = n << 10; }},
      {"flow_mbps", [&](uint64_t n) { wire.flow.rate_bytes_per_s = n * 125'000; }},
      {"flow_queue_kib", [&](uint64_t n) { wire.flow.queue_bytes = n << 10; }},
      {"mark_kib", [&](uint64_t n) { out.mark_bytes = n << 10; }},
      {"loss_ppm", [&](uint64_t n) { out.loss_ppm = static_cast<uint32_t>(n); }},
      {"bad_enter_ppm", [&](uint64_t n) { out.bad_enter_ppm = static_cast<uint32_t>(n); }},
      {"bad_leave_ppm", [&](uint64_t n) { out.bad_leave_ppm = static_cast<uint32_t>(n); }},
      {"duplicate_ppm", [&](uint64_t n) { out.duplicate_ppm = static_cast<uint32_t>(n); }},
      {"corrupt_ppm", [&](uint64_t n) { out.corrupt_ppm = static_cast<uint32_t>(n); }},
      {"reorder_ppm", [&](uint64_t n) { out.reorder_ppm = static_cast<uint32_t>(n); }},
      {"reorder_us", [&](uint64_t n) { out.reorder_delay = micros(static_cast<int64_t>(n)); }},
  };
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    const auto key = keys.find(part.substr(0, equals));
    if (equals == std::string::npos || key == keys.end()) {
      throw std::runtime_error("not an option of a path: " + part);
    }
    key->second(std::stoull(part.substr(equals + 1)));
  }
  return wire;
}

void bridge(Direction& there, Direction& back, const Device& left, const Device& right,
            Nanos ends_at) {
  while (g_is_asked_to_stop == 0) {
    const Nanos now = monotonic_now();
    if (now >= ends_at) return;
    const Nanos next = earlier(earlier(there.next_deadline(), back.next_deadline()), ends_at);
    // A device without room is tried again soon.
    const Nanos wait = next > now ? next - now : micros(20);
    const timespec timeout{.tv_sec = wait.value / 1'000'000'000,
                           .tv_nsec = wait.value % 1'000'000'000};
    std::array<pollfd, 2> ends = {pollfd{left.fd(), POLLIN, 0}, pollfd{right.fd(), POLLIN, 0}};
    ::ppoll(ends.data(), ends.size(), &timeout, nullptr);
    if (ends[0].revents != 0) there.receive();
    if (ends[1].revents != 0) back.receive();
    there.send();
    back.send();
  }
}

int run(int argc, char** argv) {
  CLI::App app("A wire between two devices that harms TCP as asked");
  std::string left_name;
  std::string right_name;
  std::string there_text;
  std::string back_text;
  uint64_t seed = 1;
  uint32_t limit_s = 600;
  app.add_option("left", left_name, "Device")->required();
  app.add_option("right", right_name, "Device")->required();
  app.add_option("--there", there_text, "From left to right: key=value,...");
  app.add_option("--back", back_text, "From right to left");
  app.add_option("--seed", seed, "Of all chances");
  app.add_option("--seconds", limit_s, "Ends by itself after so long")->check(CLI::Range(1, 86400));
  CLI11_PARSE(app, argc, argv);
  for (const int number : {SIGTERM, SIGINT}) {
    std::signal(number, [](int) { g_is_asked_to_stop = 1; });
  }
  ::prctl(PR_SET_TIMERSLACK, 1);
  const Device left(left_name);
  const Device right(right_name);
  Direction there(left, right, parse_wire(there_text), seed * 2);
  Direction back(right, left, parse_wire(back_text), seed * 2 + 1);
  std::cout << "bridging" << std::endl;
  bridge(there, back, left, right, monotonic_now() + seconds(limit_s));
  std::cout << nlohmann::json{{"seed", seed},
                              {"there", there.counters()},
                              {"back", back.counters()}}
            << std::endl;
  return 0;
}

}  // namespace
}  // namespace lyre::interop

int main(int argc, char** argv) {
  try {
    return lyre::interop::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "interop_bridge: " << error.what() << std::endl;
    return 1;
  }
}
