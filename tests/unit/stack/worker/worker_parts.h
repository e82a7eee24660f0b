#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "stack/channel/abi.h"
#include "stack/channel/ring.h"
#include "stack/channel/stats.h"
#include "stack/io/sim/link.h"
#include "stack/io/sim/memory.h"
#include "stack/worker/parts.h"

namespace lyre::worker {

/// A wire whose other end only collects frames, and what a worker at it is given.
struct WorkerBed {
  static constexpr uint32_t kConnectionsMax = 4;

  explicit WorkerBed(const io::sim::LinkOptions& options)
      : link(options),
        memory({.rx_slots = 16, .frame_bytes = options.mtu_bytes + 64, .tx_packets = 256}),
        far_memory({.rx_slots = 256, .frame_bytes = options.mtu_bytes + 64, .tx_packets = 16}),
        far(link.add_queue(1, far_memory)) {}

  StatsBinding binding() {
    return {.worker = &stats, .traces = traces, .ended = ended, .queues = queues};
  }

  io::sim::Link link;
  io::sim::Memory memory;
  io::sim::Memory far_memory;
  io::PacketIo& far;
  channel::WorkerStats stats;
  std::vector<channel::TraceRing> traces{kConnectionsMax};
  std::vector<channel::EndedRow> ended{8};
  std::vector<channel::QueueStats> queues{2};
};

/// The parts of a worker with one port, for tests that call one of them.
class WorkerParts : public ::testing::Test, protected WorkerBed, protected Parts {
 protected:
  static constexpr uint32_t kContext = 0;
  static constexpr uint64_t kArenaBytes = 1 << 16;

  explicit WorkerParts(const io::sim::LinkOptions& options = {})
      : WorkerBed(options), Parts(config(), memory, 2, binding()) {
    neighbourhood.add_port({.io = &link.add_queue(0, memory),
                            .addresses = {InterfaceAddress::of(kOwn, 24)},
                            .mtu_bytes = options.mtu_bytes});
    neighbourhood.update_routes();
    state.now = seconds(1);
  }

  /// The answer to an ARP request for the peer.
  void learn_peer() { learn(0, kPeer.address, kOwn); }
  void learn(uint8_t port, const IpAddress& peer, const IpAddress& own) {
    neighbourhood.on_arp(port, {.operation = wire::ArpOperation::kReply,
                                .sender_mac = kPeerMac,
                                .sender_ip = peer,
                                .target_mac = state.ports[port].mac(),
                                .target_ip = own});
  }
  /// What has left through the port, frame by frame.
  std::vector<std::vector<uint8_t>> take_frames() {
    state.ports[0].begin_turn();
    state.ports[0].flush();
    link.advance(state.now);
    std::vector<std::vector<uint8_t>> frames;
    io::PacketBuf* packets[16];
    while (const size_t count = far.rx_burst(packets)) {
      for (size_t i = 0; i < count; ++i) {
        const auto bytes = packets[i]->bytes();
        frames.emplace_back(bytes.begin(), bytes.end());
      }
      far_memory.release({packets, count});
    }
    return frames;
  }

  void attach(uint32_t context = kContext, uint32_t uid = 0) {
    const auto layout = channel::ContextLayout::of(1, kArenaBytes, 0);
    shared_.emplace_back(new (std::align_val_t{4096}) uint8_t[layout.total_bytes]());
    uint8_t* bytes = shared_.back().get();
    contexts.attach({.kind = Command::Kind::kAttach,
                     .context = context,
                     .memory = bytes,
                     .memory_bytes = layout.total_bytes,
                     .arena_offset = layout.arena_offset,
                     .arena_bytes = kArenaBytes,
                     .rings = reinterpret_cast<channel::RingPair*>(bytes + layout.rings_offset),
                     .attached_workers = &attached_workers,
                     .uid = uid});
    arena = bytes + layout.arena_offset;
  }
  /// A session of the client that connects to the peer.
  uint32_t open() {
    uint32_t conn = UINT32_MAX;
    EXPECT_EQ(lifecycle.open(kContext, {}, kPeer, 0, conn), channel::EndStatus::kOk);
    return conn;
  }
  /// The client asks for something.
  void submit(const channel::Submission& entry, uint32_t context = kContext) {
    channel::RingPair& rings = *state.contexts[context].attached.rings;
    channel::SubmissionProducer producer(&rings.submission_indices, rings.submissions,
                                         rings.submission_indices.tail);
    ASSERT_GT(producer.room(), 0u);
    producer.push(entry);
    producer.publish();
  }
  /// What the client was told, and has not read yet.
  std::optional<channel::Completion> next_completion() {
    channel::RingPair& rings = *state.contexts[kContext].attached.rings;
    channel::CompletionConsumer consumer(&rings.completion_indices, rings.completions,
                                         rings.completion_indices.head);
    if (consumer.available() == 0) return std::nullopt;
    const channel::Completion entry = consumer.pop();
    consumer.publish();
    return entry;
  }
  std::optional<Reply> next_reply() {
    Reply reply;
    return replies.outbox().try_take(reply) ? std::optional(reply) : std::nullopt;
  }
  uint64_t drops(Drop reason) const { return stats.drops[static_cast<size_t>(reason)].get(); }

  static inline const IpAddress kOwn = IpAddress::v4(0x0a090001);
  static inline const Endpoint kPeer{IpAddress::v4(0x0a090002), 80};
  static constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 9}};

  std::atomic<uint32_t> attached_workers{0};  ///< of each client
  uint8_t* arena = nullptr;

 private:
  struct AlignedDelete {
    void operator()(uint8_t* bytes) const { operator delete[](bytes, std::align_val_t{4096}); }
  };
  static WorkerConfig config() {
    WorkerConfig config;
    config.engine = {
        .connections_max = kConnectionsMax, .sent_records_max = 64, .received_runs_max = 64};
    config.secret = {1, 2};
    return config;
  }
  std::vector<std::unique_ptr<uint8_t[], AlignedDelete>> shared_;  ///< of each client
};

}  // namespace lyre::worker
