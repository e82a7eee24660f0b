#include "tools/lyre/pcap/run.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "libclient/include/lyre/lyre.h"
#include "libclient/packet_capture.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/look.h"
#include "tools/lyre/pcap/capture_clock.h"
#include "tools/lyre/pcap/packet_file.h"
#include "tools/lyre/pcap/packet_filter.h"
#include "tools/lyre/pcap/packet_stream.h"
#include "tools/lyre/pcap/pcapng.h"
#include "tools/lyre/snapshot.h"
#include "tools/lyre/text_table.h"

namespace lyre::tools {
namespace {

/// CLOCK_MONOTONIC, also the daemon's: setting the time of day does not change it.
using Clock = std::chrono::steady_clock;
constexpr double kNsPerSecond = 1e9;

/// Packets between two looks at signals and limits.
constexpr size_t kBatchPackets = 4096;
/// How long packets may wait in their rings while the tool has nothing to do.
constexpr int kPauseMs = 5;
/// A filter has to see the headers, however little is kept.
constexpr uint32_t kFilteredBytesMin = 256;

volatile std::sig_atomic_t g_must_end = 0;

void request_end(int) { g_must_end = 1; }

/// 0: a signal ends the open of a FIFO without a reader. SA_RESTART: a write that waits for a slow
/// reader continues after the first signal, so that the file is whole; poll() returns. The second
/// signal ends the process.
void catch_signals(unsigned flags) {
  struct sigaction action {};
  action.sa_handler = request_end;
  action.sa_flags = static_cast<int>(flags | SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

template <typename SomeClock>
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(SomeClock::now().time_since_epoch())
      .count();
}

client::PacketCapture begin_capture(const GlobalOptions& globals, const PcapOptions& options,
                                    bool is_filtered) {
  client::PacketCapture begun;
  const uint32_t bytes =
      is_filtered ? std::max(options.snap_bytes, kFilteredBytesMin) : options.snap_bytes;
  const int code =
      client::begin_capture(globals.socket_or_default(), options.port.c_str(), bytes, begun);
  if (code == 0) return begun;
  if (begun.is_refused) throw Failure(kExitFailure, lyre_last_error(), code);
  throw library_failure(code);
}

/// One capture, from its begin to its last line.
class Capture {
 public:
  Capture(const GlobalOptions& globals, const PcapOptions& options)
      : options_(options),
        filter_(options.filter),
        step_ns_(clock_.step_from_ns(StatsSegment(globals.socket_or_default()).unix_offset_ns())),
        begun_(begin_capture(globals, options, !filter_.is_empty())),
        packets_(reinterpret_cast<channel::CaptureRing*>(begun_.memory.data()), begun_.ring_count,
                 step_ns_),
        file_(options.file) {}

  void run() {
    file_.write(pcapng::section_header(std::string("lyre ") + lyre_version()));
    file_.write(pcapng::interface_description(
        {.name = options_.port, .filter = options_.filter, .snap_bytes = options_.snap_bytes}));
    file_.flush();
    std::cerr << "capturing " << options_.port << std::endl;
    try {
      write_packets();
      write_statistics();
    } catch (const Failure&) {
      print_counts();
      throw;
    }
    print_counts();
    if (packets_.is_broken()) throw Failure(kExitFailure, "the daemon's capture is not valid");
    if (has_daemon_ended_) throw Failure(kExitNoDaemon, "the daemon ended the capture");
  }

 private:
  bool is_full() const { return options_.packets_max > 0 && written_ == options_.packets_max; }
  bool is_over() const {
    const double elapsed_s =
        static_cast<double>(now_ns<Clock>() - clock_.begin_monotonic_ns) / kNsPerSecond;
    return g_must_end != 0 || is_full() || has_daemon_ended_ || packets_.is_broken() ||
           file_.has_no_reader() || (options_.duration_s > 0 && elapsed_s >= options_.duration_s);
  }

  void write_packets() {
    while (!is_over()) {
      if (!write_batch()) pause();
    }
    // The workers stop to write, and what they have written until then is taken.
    begun_.control = {};
    while (!is_full() && write_batch()) {
    }
  }

  /// False when there was nothing.
  bool write_batch() {
    size_t count = 0;
    while (count < kBatchPackets && !is_full()) {
      const channel::CapturedPacket* packet = packets_.take();
      if (packet == nullptr) break;
      ++count;
      write(*packet);
    }
    if (count > 0) file_.flush();
    taken_ += count;
    return count > 0;
  }

  void write(const channel::CapturedPacket& packet) {
    std::span<const uint8_t> bytes = packet.bytes;
    if (!filter_.takes(bytes, packet.record.packet_bytes)) return;
    bytes = bytes.first(std::min<size_t>(bytes.size(), options_.snap_bytes));
    const bool is_sent = packet.record.direction == channel::CaptureDirection::kSent;
    file_.write(pcapng::enhanced_packet(
        {.unix_ns = packet.record.unix_ns,
         .packet_bytes = packet.record.packet_bytes,
         .direction = is_sent ? pcapng::Direction::kSent : pcapng::Direction::kReceived},
        bytes));
    ++written_;
  }

  void pause() {
    pollfd control{begun_.control.get(), POLLIN, 0};
    has_daemon_ended_ = ::poll(&control, 1, kPauseMs) > 0;
  }

  void write_statistics() {
    const uint64_t dropped = packets_.dropped();
    file_.write(pcapng::interface_statistics({.begin_unix_ns = clock_.begin_unix_ns,
                                              .end_unix_ns = clock_.unix_ns_at(now_ns<Clock>()),
                                              .received = taken_ + dropped,
                                              .dropped = dropped,
                                              .accepted = written_}));
    file_.flush();
  }

  void print_counts() const {
    std::cerr << written_ << " packets captured, " << packets_.dropped() << " dropped" << std::endl;
  }

  const PcapOptions& options_;
  PacketFilter filter_;
  const CaptureClock clock_{.begin_unix_ns = now_ns<std::chrono::system_clock>(),
                            .begin_monotonic_ns = now_ns<Clock>()};
  const int64_t step_ns_;
  client::PacketCapture begun_;
  PacketStream packets_;
  PacketFile file_;
  uint64_t taken_ = 0;
  uint64_t written_ = 0;
  bool has_daemon_ended_ = false;
};

std::string ports_text(const Snapshot& now) {
  TextTable table;
  for (const char* title : {"port", "device"}) table.add_column(title);
  for (const PortSnapshot& port : now.ports) table.add_row({port.name, port.device});
  return table.text();
}

nlohmann::ordered_json ports_json(const Snapshot& now) {
  auto ports = nlohmann::ordered_json::array();
  for (const PortSnapshot& port : now.ports) {
    ports.push_back({{"name", port.name}, {"device", port.device}});
  }
  return {{"ports", std::move(ports)}};
}

}  // namespace

void run_pcap(const GlobalOptions& globals, const PcapOptions& options) {
  if (options.port.empty()) {
    return show(globals, std::nullopt,
                {.text = [](const Snapshot& now, const Snapshot*) { return ports_text(now); },
                 .json = [](const Snapshot& now, const Snapshot*) { return ports_json(now); }});
  }
  if (globals.is_json) throw Failure(kExitUsage, "packets are written as pcapng, not as JSON");
  check_is_no_terminal(options.file);
  std::signal(SIGPIPE, SIG_IGN);  // the write finds that the reader has gone: see PacketFile
  catch_signals(0);
  Capture capture(globals, options);
  catch_signals(SA_RESTART);
  capture.run();
}

}  // namespace lyre::tools
