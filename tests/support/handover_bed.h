#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "stack/record/stream.h"
#include "tests/support/two_workers.h"

namespace lyre::test {

/// Two hosts in the middle of transfers over a lossy wire, and workers that go on in the place of
/// theirs. A client keeps what it was lent.
class HandoverBed {
 public:
  static constexpr uint32_t kSessions = 3;
  static constexpr uint32_t kBytes = 60'000;
  static constexpr uint32_t kLastBytes = 1'000;  ///< of the first session, from registered memory
  static constexpr uint32_t kRegion = worker::kContextsMax + 1;

  HandoverBed()
      : hosts_({.delay = micros(300), .faults = {.loss_ppm = 50'000, .reorder_ppm = 20'000}}),
        registered_(kBytes) {
    hosts_.client_a->add_region(kRegion, registered_.data(), registered_.size());
    hosts_.app_a->receive_seed = hosts_.app_b->receive_seed = 5;
    hosts_.client_b->listen(5000, 7);
    hosts_.run_until([&] { return !hosts_.app_b->others.empty(); });
    for (uint32_t i = 0; i < kSessions; ++i) {
      hosts_.client_a->connect({IpAddress::v4(0x0a090002), 5000}, i);
    }
    hosts_.run_until([&] { return hosts_.app_b->stream_count() == kSessions; });
    hosts_.app_b->keeps_slots = true;
    for (const auto& [index, stream] : hosts_.app_a->streams()) {
      hosts_.app_a->send_pattern(stream.name, 5, kBytes, 4096);
    }
    for (uint32_t i = 0; i < kLastBytes; ++i) registered_[i] = pattern(5, kBytes + i);
    hosts_.client_a->send(hosts_.app_a->only().name, 0, kLastBytes, kRegion);
    hosts_.run_for(millis(3));
  }

  /// What the worker of host 0, which sends, or 1, which receives, writes.
  std::vector<uint8_t> records_of(uint32_t host) {
    record::Writer out;
    worker_of(host).write_handover(out);
    return out.bytes();
  }
  worker::Worker& worker_of(uint32_t host) { return (host == 0 ? hosts_.a : hosts_.b).worker(); }
  TwoWorkers& hosts() { return hosts_; }

  /// A worker that took these records over, on a wire whose other end answers ARP and nothing else;
  /// null: it refused them. Its clients are those of `host`. It has `addresses`, or that of `host`.
  std::unique_ptr<WorkerHost> successor(uint32_t host, std::span<const uint8_t> records,
                                        std::vector<InterfaceAddress> addresses = {}) {
    link_ = std::make_unique<io::sim::Link>(io::sim::LinkOptions{});
    peer_ = &link_->add_queue(1, peer_memory_);
    HostOptions options{.address = host == 0 ? 0x0a090001u : 0x0a090002u,
                        .addresses = std::move(addresses),
                        .seed = 2 + host};
    auto made = std::make_unique<WorkerHost>(*link_, options);
    std::vector<worker::Command> memory;
    (host == 0 ? hosts_.client_a : hosts_.client_b)->describe_memory(memory);
    record::Reader in(records);
    const bool is_taken = made->worker().take_over(memory, in, hosts_.now) && in.is_at_end();
    if (!is_taken || !made->worker().try_claim_all()) return nullptr;
    return made;
  }
  /// Turns of a successor, whose invariants hold after each.
  void run(WorkerHost& host, int turns) {
    Nanos now = hosts_.now;
    for (int i = 0; i < turns; ++i) {
      link_->advance(now);
      host.worker().poll_once(now);
      host.worker().check_invariants(UINT32_MAX);
      link_->advance(now);
      answer_arp();
      now += i % 4 == 3 ? millis(300) : micros(5);
    }
  }

 private:
  /// RFC 826.
  void answer_arp() {
    std::array<io::PacketBuf*, 32> packets;
    const size_t count = peer_->rx_burst(packets);
    for (io::PacketBuf* packet : std::span(packets).first(count)) {
      uint8_t* frame = packet->data;
      const bool is_request = packet->length >= 42 && frame[12] == 8 && frame[13] == 6 &&
                              frame[21] == 1 && std::memcmp(frame + 28, frame + 38, 4) != 0;
      if (is_request) {
        std::array<uint8_t, 4> asked;
        std::memcpy(asked.data(), frame + 38, 4);
        std::memcpy(frame, frame + 22, 6);
        std::memcpy(frame + 32, frame + 22, 10);
        frame[21] = 2;
        for (const size_t at : {6, 22}) {
          std::memcpy(frame + at, peer_->capabilities().mac.bytes.data(), 6);
        }
        std::memcpy(frame + 28, asked.data(), 4);
      }
      if (!is_request || peer_->tx_burst({&packet, 1}) == 0) peer_memory_.release({&packet, 1});
    }
  }

  TwoWorkers hosts_;
  std::vector<uint8_t> registered_;
  io::sim::Memory peer_memory_{{.rx_slots = 256}};
  std::unique_ptr<io::sim::Link> link_;
  io::PacketIo* peer_ = nullptr;
};

}  // namespace lyre::test
