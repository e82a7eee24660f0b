#pragma once

#include <cstring>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "stack/channel/stats.h"

namespace lyre::tools {

/// A stats segment as a daemon with two workers and one port writes it.
class FakeSegment {
 public:
  static constexpr uint32_t kWorkers = 2;
  static constexpr uint32_t kRows = 4;
  static constexpr uint32_t kClientRows = 2;
  static constexpr uint32_t kNeighbourRows = 2;
  static constexpr uint32_t kRouteRows = 4;
  static constexpr uint32_t kEndedRows = 2;
  static constexpr int64_t kStartedNs = 1'700'000'000'000'000'000;
  static constexpr int64_t kNowNs = kStartedNs + 192'000'000'000;

  FakeSegment() : words_(kBytes / sizeof(uint64_t)) {
    header().magic = channel::kStatsMagic;
    header().version = channel::kStatsVersion;
    header().worker_count = kWorkers;
    header().session_rows = kRows;
    header().port_count = 1;
    header().pid = 4711;
    header().started_unix_ns = kStartedNs;
    header().total_bytes = kBytes;
    header().workers_offset = kWorkersOffset;
    header().sessions_offset = kSessionsOffset;
    header().ports_offset = kPortsOffset;
    header().client_rows = kClientRows;
    header().clients_offset = kClientsOffset;
    header().queues_offset = kQueuesOffset;
    header().neighbour_rows = kNeighbourRows;
    header().neighbours_offset = kNeighboursOffset;
    header().route_rows = kRouteRows;
    header().routes_offset = kRoutesOffset;
    header().trace_rings = kRows;
    header().traces_offset = kTracesOffset;
    header().ended_rows = kEndedRows;
    header().ended_offset = kEndedOffset;
    std::strcpy(header().daemon_name, "host-a");
    std::strcpy(header().daemon_version, "0.1.0");
    std::strcpy(header().idle_policy, "adaptive");
    header().clients.set(1);
    header().clients_total.set(5);
    std::strcpy(port().name, "memif0");
    std::strcpy(port().device, "net_memif0");
    put_address("10.9.0.1", port().addresses[0].address);
    port().addresses[0].prefix_bits = 24;
    put_address("fd00:9::1", port().addresses[1].address);
    port().addresses[1].prefix_bits = 64;
    port().address_count = 2;
    port().mtu_bytes = 1500;
    port().is_link_up.store(1);
    port().mac[0] = 2;
  }

  const void* data() const { return words_.data(); }
  static constexpr size_t bytes() { return kBytes; }
  channel::StatsHeader& header() { return *at<channel::StatsHeader>(0); }
  channel::WorkerStats& worker(uint32_t index) {
    return *at<channel::WorkerStats>(kWorkersOffset + index * channel::kWorkerStride);
  }
  channel::SessionRow& row(uint32_t worker, uint32_t index) {
    return at<channel::SessionRow>(kSessionsOffset)[worker * kRows + index];
  }
  channel::ClientRow& client(uint32_t worker, uint32_t context) {
    return at<channel::ClientRow>(kClientsOffset)[worker * kClientRows + context];
  }
  channel::QueueStats& queue(uint32_t worker) {
    return at<channel::QueueStats>(kQueuesOffset)[worker];
  }
  channel::NeighbourRow& neighbour(uint32_t worker, uint32_t index) {
    return at<channel::NeighbourRow>(kNeighboursOffset)[worker * kNeighbourRows + index];
  }
  channel::RouteRow& route(uint32_t index) { return at<channel::RouteRow>(kRoutesOffset)[index]; }
  channel::TraceRing& trace(uint32_t worker, uint32_t index) {
    return at<channel::TraceRing>(kTracesOffset)[worker * kRows + index];
  }
  channel::EndedRow& ended(uint32_t worker, uint32_t index) {
    return at<channel::EndedRow>(kEndedOffset)[worker * kEndedRows + index];
  }
  channel::StatsPort& port() { return *at<channel::StatsPort>(kPortsOffset); }

  static void put_address(const char* text, uint8_t (&out)[16]) {
    lyre_addr addr{};
    lyre_addr_parse(text, &addr);
    std::memcpy(out, addr.address, sizeof out);
  }
  /// An established connection that was opened ten seconds before it was looked at.
  static channel::SessionView connection() {
    channel::SessionView view{};
    put_address("10.9.0.1", view.local_address);
    put_address("10.9.0.2", view.remote_address);
    view.local_port = 5000;
    view.remote_port = 43210;
    view.state = 3;
    view.is_lent = 1;
    view.worker = 1;
    view.pid = 123;
    std::strcpy(view.label, "trainer");
    view.mss_bytes = 1448;
    view.cwnd_bytes = 1u << 20;
    view.in_flight_bytes = 64 * 1024;
    view.send_window_bytes = 3u << 20;
    view.receive_window_bytes = 2u << 20;
    view.lent_slots = 7;
    view.srtt_ns = 23'400;
    view.rtt_min_ns = 12'000;
    view.rto_ns = 200'000'000;
    view.rtt_var_ns = 3'400;
    view.ssthresh_bytes = 512 * 1024;
    view.waiting = 3;
    view.backoffs = 2;
    view.options = 1 | 4;
    view.waiting_until_unix_ns = kNowNs + 150'000'000;
    view.last_sent_unix_ns = kNowNs - 5'000'000;
    view.segments_sent = 7'000'000;
    view.segments_received = 900'000;
    view.out_of_order_segments = 12;
    view.duplicate_segments = 3;
    view.uid = 1000;
    view.bytes_sent = uint64_t{10} << 30;
    view.bytes_acked = view.bytes_sent - 64 * 1024;
    view.bytes_received = 1'250'000'000;
    view.opened_unix_ns = kNowNs - 10'000'000'000;
    view.updated_unix_ns = kNowNs;
    return view;
  }

 private:
  static constexpr uint64_t kWorkersOffset = 4096;
  static constexpr uint64_t kSessionsOffset = kWorkersOffset + kWorkers * channel::kWorkerStride;
  static constexpr uint64_t kPortsOffset =
      kSessionsOffset + kWorkers * kRows * sizeof(channel::SessionRow);
  static constexpr uint64_t kClientsOffset = kPortsOffset + sizeof(channel::StatsPort);
  static constexpr uint64_t kQueuesOffset =
      kClientsOffset + kWorkers * kClientRows * sizeof(channel::ClientRow);
  static constexpr uint64_t kNeighboursOffset =
      kQueuesOffset + kWorkers * sizeof(channel::QueueStats);
  static constexpr uint64_t kRoutesOffset =
      kNeighboursOffset + kWorkers * kNeighbourRows * sizeof(channel::NeighbourRow);
  static constexpr uint64_t kTracesOffset = kRoutesOffset + kRouteRows * sizeof(channel::RouteRow);
  static constexpr uint64_t kEndedOffset =
      kTracesOffset + kWorkers * kRows * sizeof(channel::TraceRing);
  static constexpr uint64_t kBytes =
      kEndedOffset + kWorkers * kEndedRows * sizeof(channel::EndedRow);
  static_assert(kBytes % sizeof(uint64_t) == 0);

  template <typename T>
  T* at(uint64_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(words_.data()) + offset);
  }

  std::vector<uint64_t> words_;
};

}  // namespace lyre::tools
