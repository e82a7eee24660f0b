#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/support/channel_client.h"
#include "tests/support/worker_host.h"

namespace lyre::test {

/// The byte at `place` of the stream with this seed.
inline uint8_t pattern(uint64_t seed, uint64_t place) {
  return static_cast<uint8_t>((place * 0x9e3779b97f4a7c15u + seed) >> 29);
}

/// Received bytes that a client was lent and has not given back. Nobody may change them until then.
struct LentBytes {
  uint32_t slot = 0;
  std::span<const uint8_t> bytes{};  ///< empty: not compared
  uint64_t seed = 0;                 ///< of the stream that they belong to
  uint64_t place = 0;                ///< of the first of them in it

  bool is_equal() const {
    bool all = true;
    for (size_t i = 0; i < bytes.size(); ++i) all &= bytes[i] == pattern(seed, place + i);
    return all;
  }
};

/// An application on a channel client: sends and checks seeded streams on all its sessions.
class PatternApp {
 public:
  explicit PatternApp(ChannelClient& client) : client_(client) {}

  struct Stream {
    channel::SessionName name;
    uint64_t seed = 0;  ///< of what is received
    uint64_t received = 0;
    bool is_equal = true;
    bool is_finished = false;  ///< the peer has finished
    bool is_ended = false;
    channel::EndStatus status = channel::EndStatus::kOk;
    uint64_t sends_done = 0;
    uint32_t acked_bytes = 0;  ///< of the next send
    uint32_t rtt_min_us = 0;
    uint32_t rto_us = 0;
    bool is_window_closed = false;
  };

  /// Reads all available data. `keeps_slots`: releases nothing. What it releases, it compares
  /// again.
  size_t step() {
    size_t count = 0;
    for (channel::Completion entry = client_.next(); entry.event != channel::Event::kNone;
         entry = client_.next()) {
      on_completion(entry);
      ++count;
    }
    while (!keeps_slots && !owed_.empty() && client_.release(owed_.back().lent.slot)) on_released();
    return count;
  }
  Stream* stream(uint32_t index) {
    const auto found = streams_.find(index);
    return found == streams_.end() ? nullptr : &found->second;
  }
  Stream& only() { return streams_.begin()->second; }
  size_t stream_count() const { return streams_.size(); }
  const std::map<uint32_t, Stream>& streams() const { return streams_; }

  /// Fills the arena with the stream of `seed` and queues `bytes` of it in blocks.
  void send_pattern(channel::SessionName session, uint64_t seed, uint32_t bytes, uint32_t block) {
    for (uint32_t i = 0; i < bytes; ++i) client_.arena()[i] = pattern(seed, i);
    for (uint32_t at = 0; at < bytes; at += block) {
      LYRE_CHECK(client_.send(session, at, std::min(block, bytes - at)));
    }
  }

  bool keeps_slots = false;
  bool checks_bytes = true;  ///< false for a client that may have overwritten its completions
  uint64_t receive_seed = 0;
  std::span<const uint8_t> pool;
  channel::SessionName connecting;          ///< the last one that got a name before its handshake
  std::vector<channel::Completion> others;  ///< events without a stream: failures, listening

 private:
  struct Owed {
    channel::SessionName session;  ///< that received it
    LentBytes lent;
  };
  void on_completion(const channel::Completion& entry) {
    if (entry.event == channel::Event::kConnecting) {
      connecting = entry.session;
      return;
    }
    Stream& stream = streams_[entry.session.index];
    switch (entry.event) {
      case channel::Event::kConnected:
      case channel::Event::kAccepted:
        stream = Stream{.name = entry.session, .seed = receive_seed};
        return;
      case channel::Event::kData:
        return on_data(stream, entry);
      case channel::Event::kSendDone:
        stream.sends_done = entry.body.send_done.descriptors;
        stream.acked_bytes = entry.body.send_done.acked_bytes;
        stream.rtt_min_us = entry.body.send_done.rtt_min_us;
        stream.rto_us = entry.body.send_done.rto_us;
        stream.is_window_closed = entry.body.send_done.is_window_closed != 0;
        return;
      case channel::Event::kPeerFinished:
        stream.is_finished = true;
        return;
      case channel::Event::kEnded:
        stream.is_ended = true;
        stream.status = entry.status;
        return;
      default:
        streams_.erase(entry.session.index);
        others.push_back(entry);
    }
  }
  void on_data(Stream& stream, const channel::Completion& entry) {
    for (uint32_t i = 0; i < entry.count && i < channel::kLentSlicesMax; ++i) {
      const channel::LentSlice& slice = entry.body.data[i];
      owed_.push_back({stream.name, {.slot = slice.slot}});
      if (!checks_bytes) continue;  // this client may have no pool
      LentBytes& lent = owed_.back().lent;
      const uint8_t* bytes = entry.pool == channel::kPoolContext ? client_.memory() + slice.offset
                                                                 : pool.data() + slice.offset;
      lent.bytes = {bytes, slice.bytes};
      lent.seed = stream.seed;
      lent.place = stream.received;
      stream.is_equal &= lent.is_equal();
      stream.received += slice.bytes;
    }
  }
  /// The last slot was released. The worker has not seen that yet.
  void on_released() {
    const Owed& owed = owed_.back();
    Stream* read = stream(owed.session.index);
    const bool is_known = read != nullptr && read->name.generation == owed.session.generation;
    if (is_known) read->is_equal &= owed.lent.is_equal();
    owed_.pop_back();
  }

  ChannelClient& client_;
  std::map<uint32_t, Stream> streams_;
  std::vector<Owed> owed_;
};

/// Two hosts on one simulated wire, with a client and an application each, and virtual time.
class TwoWorkers {
 public:
  explicit TwoWorkers(const io::sim::LinkOptions& link_options = {}, HostOptions left = {},
                      HostOptions right = {})
      : link(link_options), a(link, with_end(left, 0)), b(link, with_end(right, 1)) {
    client_a = std::make_unique<ChannelClient>(a.worker(), 0);
    client_b = std::make_unique<ChannelClient>(b.worker(), 0);
    app_a = std::make_unique<PatternApp>(*client_a);
    app_b = std::make_unique<PatternApp>(*client_b);
    app_a->pool = a.memory().rx_memory();
    app_b->pool = b.memory().rx_memory();
  }

  /// Runs one turn of both hosts; the clock advances to the next deadline when no host did work.
  void turn() {
    link.advance(now);
    size_t work = a.worker().poll_once(now) + b.worker().poll_once(now);
    work += app_a->step() + app_b->step();
    for (PatternApp* app : more_apps) work += app->step();
    if (work > 0) {
      now += micros(1);
      return;
    }
    const Nanos next = earlier(link.next_deadline(),
                               earlier(a.worker().next_deadline(), b.worker().next_deadline()));
    now = later(now + micros(1), next == kNever ? now + millis(10) : next);
  }
  /// Runs until `is_done()` or the limit of virtual time. Returns whether it was done.
  template <typename IsDone>
  bool run_until(IsDone is_done, Nanos limit = seconds(60)) {
    const Nanos end = now + limit;
    for (uint64_t turns = 0; now < end && turns < 5'000'000; ++turns) {
      if (is_done()) return true;
      turn();
    }
    return is_done();
  }
  void run_for(Nanos span) {
    const Nanos end = now + span;
    run_until([&] { return now >= end; }, span);
  }
  /// b listens, a connects; afterwards each application has one stream.
  bool connect(uint16_t port = 5000, const IpAddress& to = IpAddress::v4(0x0a090002)) {
    client_b->listen(port, 7);
    run_until([&] { return !app_b->others.empty(); }, seconds(1));
    client_a->connect({to, port}, 9);
    return run_until([&] { return app_a->stream_count() == 1 && app_b->stream_count() == 1; });
  }

  Nanos now = seconds(1);
  io::sim::Link link;
  WorkerHost a;
  WorkerHost b;
  std::unique_ptr<ChannelClient> client_a;
  std::unique_ptr<ChannelClient> client_b;
  std::unique_ptr<PatternApp> app_a;
  std::unique_ptr<PatternApp> app_b;
  std::vector<PatternApp*> more_apps;

 private:
  static HostOptions with_end(HostOptions options, int end) {
    options.end = end;
    options.address = end == 0 ? 0x0a090001 : 0x0a090002;
    options.seed = options.seed * 2 + static_cast<uint64_t>(end);
    return options;
  }
};

}  // namespace lyre::test
