/// The pass-through limit: Lyre's processes, rings and wire without TCP. A client fills blocks of
/// shared memory and names them in a ring; a process with a port cuts them into packets that refer
/// to that memory; memif; a process with a port names the packets in a ring; a client reads them.
/// What Lyre reaches beside it is what TCP costs. `raw`: the two port processes alone.
///
///   passthrough receiver SOCKET MTU touched|untouched|raw CORE            prints {"gbps": ...}
///   passthrough sender   SOCKET MTU touched|untouched|raw CORE SECONDS
///
/// Both print what their driver takes of a core for a GiB: {"driver_s_per_gib": ...}.

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "stack/channel/ring.h"
#include "stack/io/dpdk/environment.h"
#include "tests/bench/probe.h"

namespace lyre {
namespace {

constexpr uint32_t kHeaderBytes = 54;  ///< Ethernet, IPv4, TCP
constexpr uint32_t kBlockBytes = 64 * 1024;
constexpr uint32_t kBlocks = 32;
constexpr size_t kBurst = 32;
/// What Queue may keep prepared: a block's memory is read no more once that many packets followed.
constexpr uint64_t kPacketsBehindMax = 64;
constexpr int64_t kQuietNs = 300'000'000;
constexpr int64_t kPatienceNs = 20'000'000'000;
/// A driver that is between stop and start needs a moment of peace.
constexpr int64_t kRestartIntervalNs = 500'000'000;

struct Options {
  bool is_sender = false;
  std::string socket;
  uint32_t mtu_bytes = 1500;
  bool is_raw = false;
  bool is_touched = false;
  int core = 0;
  int64_t duration_ns = 0;
};

/// What the two processes of a host share.
struct Shared {
  channel::RingPair rings;
  alignas(4096) uint8_t arena[kBlocks * kBlockBytes];
};

/// The process with the port, and what it drives.
struct Host {
  std::unique_ptr<io::Backend> environment;
  std::unique_ptr<io::PacketMemory> memory;
  std::unique_ptr<io::Port> port;
  Shared* shared = nullptr;
  channel::SubmissionConsumer submissions;
  channel::CompletionProducer completions;
};

/// What a driver takes to move payload. Calls that move nothing do not count.
class DriverTime {
 public:
  /// A call that began at `began_ns` has moved that.
  void add(int64_t began_ns, uint64_t bytes) {
    spent_ns_ += now_ns() - began_ns;
    bytes_ += bytes;
  }
  double s_per_gib() const {
    return static_cast<double>(spent_ns_) / 1e9 * (1 << 30) / static_cast<double>(bytes_);
  }

 private:
  int64_t spent_ns_ = 0;
  uint64_t bytes_ = 0;
};

Host open_host(const Options& options) {
  Host host;
  auto started = io::dpdk::start_environment(
      {.file_prefix = "lyre-passthrough-" + std::to_string(::getpid())});
  if (!started) fail(started.error().text);
  host.environment = std::move(*started);
  const std::string device = std::string("net_memif0,role=") +
                             (options.is_sender ? "client" : "server") +
                             ",socket-abstract=no,socket=" + options.socket;
  auto memory =
      host.environment->make_memory(0, {.mtu_bytes = options.mtu_bytes, .devices = {device}});
  if (!memory) fail(memory.error().text);
  host.memory = std::move(*memory);
  io::PacketMemory* const memories[] = {host.memory.get()};
  auto port = host.environment->open_port(
      {.device = device, .mtu_bytes = options.mtu_bytes, .is_trusted = true}, memories);
  if (!port) fail(port.error().text);
  host.port = std::move(*port);
  void* shared = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (shared == MAP_FAILED) fail("no shared memory");
  host.shared = static_cast<Shared*>(shared);
  auto& rings = host.shared->rings;
  host.submissions = {&rings.submission_indices, rings.submissions};
  host.completions = {&rings.completion_indices, rings.completions};
  if (!host.memory->add_region(0,
                               {.base = host.shared->arena, .bytes = sizeof host.shared->arena})) {
    fail("the port refuses the shared memory");
  }
  return host;
}

void wait_for_link(Host& host) {
  int64_t restart_at = now_ns() + kRestartIntervalNs;
  const int64_t deadline = now_ns() + kPatienceNs;
  while (!host.port->is_link_up()) {
    const int64_t now = now_ns();
    if (now > deadline) fail("the link stays down");
    if (now > restart_at && host.port->needs_restart()) {
      (void)io::restart_at_once(*host.port);
      restart_at = now + kRestartIntervalNs;
    }
    ::usleep(1000);
  }
}

// ---- The sending client ----

[[noreturn]] void run_sending_client(Shared& shared, bool is_touched) {
  channel::SubmissionProducer submissions(&shared.rings.submission_indices,
                                          shared.rings.submissions);
  channel::CompletionConsumer completions(&shared.rings.completion_indices,
                                          shared.rings.completions);
  uint64_t sent = 0;
  uint64_t done = 0;
  while (true) {
    while (completions.available() > 0) done = completions.pop().body.send_done.descriptors;
    completions.publish();
    if (sent - done == kBlocks || submissions.room() == 0) {
      ::sched_yield();
      continue;
    }
    const uint64_t offset = sent % kBlocks * kBlockBytes;
    if (is_touched) {
      auto* words = reinterpret_cast<uint64_t*>(shared.arena + offset);
      for (uint32_t i = 0; i < kBlockBytes / 8; ++i) words[i] = sent + i;
    }
    channel::Submission entry{.op = channel::Op::kSend};
    entry.body.send = {.region = 0, .bytes = kBlockBytes, .offset = offset};
    submissions.push(entry);
    submissions.publish();
    ++sent;
  }
}

// ---- The sending port ----

class Sender {
 public:
  Sender(Host& host, const Options& options)
      : host_(host),
        io_(host.port->queue(0)),
        payload_bytes_(options.mtu_bytes - 40),
        is_raw_(options.is_raw) {}

  bool turn() {
    if (out_count_ == 0) build();
    const size_t taken = out_count_ == 0 ? 0 : transmit();
    std::copy(out_ + taken, out_ + out_count_, out_);
    out_count_ -= taken;
    packets_ += taken;
    tell();
    return taken > 0;
  }
  void print() const { std::printf("{\"driver_s_per_gib\": %.4f}\n", driver_.s_per_gib()); }

 private:
  size_t transmit() {
    uint64_t bytes[kBurst];
    for (size_t i = 0; i < out_count_; ++i) bytes[i] = out_[i]->pieces[0].length;
    const int64_t began_ns = now_ns();
    const size_t taken = io_.tx_burst({out_, out_count_});
    if (taken > 0) driver_.add(began_ns, std::accumulate(bytes, bytes + taken, uint64_t{0}));
    return taken;
  }
  void build() {
    while (out_count_ < kBurst && has_block()) {
      io::PacketBuf* packet = nullptr;
      if (host_.memory->alloc_tx({&packet, 1}) == 0) return;
      packet->push_front(kHeaderBytes);
      std::memset(packet->data, 0, kHeaderBytes);
      const uint32_t bytes = std::min(payload_bytes_, block_.bytes - used_);
      packet->pieces[0] = {.region = 0, .length = bytes, .offset = block_.offset + used_};
      packet->piece_count = 1;
      used_ += bytes;
      out_[out_count_++] = packet;
      ++built_;
      if (used_ == block_.bytes) ends_.push_back(built_);
    }
  }
  bool has_block() {
    if (used_ < block_.bytes) return true;
    used_ = 0;
    if (is_raw_) {
      ends_.clear();
      block_ = {.region = 0, .bytes = kBlockBytes, .offset = 0};
      return true;
    }
    block_ = {};
    if (host_.submissions.available() == 0) return false;
    block_ = host_.submissions.pop().body.send;
    host_.submissions.publish();
    return true;
  }
  void tell() {
    const uint64_t before = finished_;
    const bool is_all_read = out_count_ == 0 && host_.memory->region_holds(0) == 0;
    size_t count = 0;
    while (count < ends_.size() && (ends_[count] + kPacketsBehindMax <= packets_ || is_all_read)) {
      ++count;
    }
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<ptrdiff_t>(count));
    finished_ += count;
    if (is_raw_ || finished_ == before || host_.completions.room() == 0) return;
    channel::Completion entry{.event = channel::Event::kSendDone};
    entry.body.send_done.descriptors = finished_;
    host_.completions.push(entry);
    host_.completions.publish();
  }

  Host& host_;
  io::PacketIo& io_;
  const uint32_t payload_bytes_;
  const bool is_raw_;
  channel::Submission::Body::Send block_{};
  uint32_t used_ = 0;
  io::PacketBuf* out_[kBurst];
  size_t out_count_ = 0;
  uint64_t built_ = 0;
  uint64_t packets_ = 0;
  uint64_t finished_ = 0;
  DriverTime driver_;
  std::vector<uint64_t> ends_;  ///< number of the last packet of each block under way
};

// ---- The receiving side ----

[[noreturn]] void run_receiving_client(Shared& shared, const uint8_t* pool, bool is_touched) {
  channel::SubmissionProducer submissions(&shared.rings.submission_indices,
                                          shared.rings.submissions);
  channel::CompletionConsumer completions(&shared.rings.completion_indices,
                                          shared.rings.completions);
  std::vector<uint8_t> mine(256 * 1024);
  size_t at = 0;
  channel::Submission release{.op = channel::Op::kRelease};
  while (true) {
    if (completions.available() == 0) {
      ::sched_yield();
      continue;
    }
    const channel::Completion entry = completions.pop();
    for (uint32_t i = 0; i < entry.count; ++i) {
      const channel::LentSlice& slice = entry.body.data[i];
      if (is_touched) {
        if (at + slice.bytes > mine.size()) at = 0;
        std::memcpy(mine.data() + at, pool + slice.offset, slice.bytes);
        at += slice.bytes;
      }
      release.body.release.slots[release.count++] = slice.slot;
    }
    completions.publish();
    if (release.count + channel::kLentSlicesMax <= channel::kReleaseSlotsMax) continue;
    while (submissions.room() == 0) ::sched_yield();
    submissions.push(release);
    submissions.publish();
    release.count = 0;
  }
}

class Receiver {
 public:
  Receiver(Host& host, bool is_raw) : host_(host), io_(host.port->queue(0)), is_raw_(is_raw) {}

  bool turn() {
    io::PacketBuf* burst[kBurst];
    take_back();
    if (host_.completions.room(kBurst) < kBurst) return false;
    const int64_t began_ns = now_ns();
    const size_t count = io_.rx_burst(burst);
    if (count == 0) return false;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += burst[i]->length - kHeaderBytes;
    driver_.add(began_ns, bytes);
    if (first_ns_ == 0) first_ns_ = began_ns;
    last_ns_ = began_ns;
    packets_ += count;
    bytes_ += bytes;
    if (is_raw_) {
      host_.memory->release({burst, count});
    } else {
      lend({burst, count});
    }
    return true;
  }
  bool is_over() const { return first_ns_ != 0 && now_ns() - last_ns_ > kQuietNs; }
  void print() const {
    const auto span_ns = static_cast<double>(last_ns_ - first_ns_);
    std::printf(
        "{\"gbps\": %.3f, \"packets\": %llu, \"ns_per_packet\": %.1f, "
        "\"driver_s_per_gib\": %.4f}\n",
        static_cast<double>(bytes_) * 8 / span_ns, static_cast<unsigned long long>(packets_),
        span_ns / static_cast<double>(packets_), driver_.s_per_gib());
  }

 private:
  void take_back() {
    while (host_.submissions.available() > 0) {
      const channel::Submission entry = host_.submissions.pop();
      for (uint32_t i = 0; i < entry.count; ++i) {
        io::PacketBuf* packet = host_.memory->rx_packet(entry.body.release.slots[i]);
        host_.memory->release({&packet, 1});
      }
    }
    host_.submissions.publish();
  }
  void lend(std::span<io::PacketBuf* const> packets) {
    channel::Completion entry{.event = channel::Event::kData};
    for (const io::PacketBuf* packet : packets) {
      const uint8_t* payload = packet->data + kHeaderBytes;
      entry.body.data[entry.count++] = {
          .slot = packet->slot,
          .bytes = packet->length - kHeaderBytes,
          .offset = static_cast<uint64_t>(payload - host_.memory->rx_memory().data())};
      if (entry.count < channel::kLentSlicesMax && packet != packets.back()) continue;
      host_.completions.push(entry);
      entry.count = 0;
    }
    host_.completions.publish();
  }

  Host& host_;
  io::PacketIo& io_;
  const bool is_raw_;
  DriverTime driver_;
  int64_t first_ns_ = 0;
  int64_t last_ns_ = 0;
  uint64_t bytes_ = 0;
  uint64_t packets_ = 0;
};

/// The client is a child that shares what is mapped, and dies with us.
pid_t start_client(const Options& options, Host& host) {
  if (options.is_raw) return -1;
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.is_sender) run_sending_client(*host.shared, options.is_touched);
  run_receiving_client(*host.shared, host.memory->rx_memory().data(), options.is_touched);
}

void run(const Options& options) {
  Host host = open_host(options);
  if (Status done = host.environment->register_worker_thread(); !done) fail(done.error().text);
  take_core(options.core);
  wait_for_link(host);
  const pid_t client = start_client(options, host);
  const int64_t started = now_ns();
  if (options.is_sender) {
    Sender sender(host, options);
    while (now_ns() - started < options.duration_ns) {
      if (!sender.turn()) ::sched_yield();
    }
    sender.print();
  } else {
    Receiver receiver(host, options.is_raw);
    while (!receiver.is_over() && now_ns() - started < 10 * kPatienceNs) {
      if (!receiver.turn()) ::sched_yield();
    }
    receiver.print();
  }
  if (client > 0) {
    ::kill(client, SIGKILL);
    ::waitpid(client, nullptr, 0);
  }
  std::fflush(stdout);
  ::_exit(0);  // DPDK is never torn down; the kernel does that
}

}  // namespace
}  // namespace lyre

int main(int argc, char** argv) {
  const bool is_sender = argc == 7 && std::string(argv[1]) == "sender";
  if (!is_sender && !(argc == 6 && std::string(argv[1]) == "receiver")) {
    lyre::fail(
        "usage: passthrough receiver|sender SOCKET MTU touched|untouched|raw CORE [SECONDS]");
  }
  lyre::run({.is_sender = is_sender,
             .socket = argv[2],
             .mtu_bytes = static_cast<uint32_t>(std::atoi(argv[3])),
             .is_raw = std::string(argv[4]) == "raw",
             .is_touched = std::string(argv[4]) == "touched",
             .core = std::atoi(argv[5]),
             .duration_ns = is_sender ? static_cast<int64_t>(std::atof(argv[6]) * 1e9) : 0});
}
