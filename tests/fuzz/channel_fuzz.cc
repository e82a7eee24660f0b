#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/two_workers.h"

// Dishonest clients write anything into their shared memory, leave and come back. An honest
// client's transfer beside them must be unaffected: that is the channel ABI's promise.
namespace lyre::test {
namespace {

constexpr uint32_t kHonestBytes = 60'000;
constexpr uint32_t kLiars = 2;
constexpr uint32_t kUse = 1u << channel::kRegionIndexBits;
constexpr uint32_t kHonestRegion = kUse + worker::kContextsMax;
constexpr uint32_t kLiarRegion = kHonestRegion + 1;
constexpr uint32_t kRegionBytes = 64 * 1024;
constexpr uint16_t kServicePort = 5000;

void require(bool claim) {
  if (!claim) std::abort();
}

/// A context of the worker that one dishonest client after another uses.
class Liar {
 public:
  Liar(TwoWorkers& hosts, uint32_t context, bool is_lent)
      : hosts_(hosts), context_(context), is_lent_(is_lent), memory_(kRegionBytes) {
    attach();
  }

  ChannelClient& client() { return *client_; }
  PatternApp& app() { return *app_; }
  void remove_region() {
    if (std::exchange(has_region_, false)) client_->remove_region(region_);
  }
  /// Returns when the worker has detached the client.
  void detach() {
    std::erase(hosts_.more_apps, app_.get());
    client_->detach();
    bool is_detached = false;
    require(hosts_.run_until([&] {
      worker::Reply reply;
      while (hosts_.a.worker().outbox().try_take(reply)) {
        const bool is_own = reply.context == context_;
        is_detached |= is_own && reply.kind == worker::Reply::Kind::kDetached;
        require(reply.context != 0 || reply.kind == worker::Reply::Kind::kRegionAdded);
      }
      return is_detached;
    }));
  }
  void come_back() {
    detach();
    region_ += kUse;
    attach();
  }

 private:
  void attach() {
    client_ = std::make_unique<ChannelClient>(hosts_.a.worker(), context_, is_lent_);
    app_ = std::make_unique<PatternApp>(*client_);
    app_->checks_bytes = false;
    hosts_.more_apps.push_back(app_.get());
    client_->add_region(region_, memory_.data(), kRegionBytes);
    has_region_ = true;
  }

  TwoWorkers& hosts_;
  uint32_t context_;
  bool is_lent_;
  std::vector<uint8_t> memory_;
  uint32_t region_ = kHonestRegion + context_;
  bool has_region_ = false;
  std::unique_ptr<ChannelClient> client_;
  std::unique_ptr<PatternApp> app_;
};

channel::SessionName any_name(FuzzedDataProvider& input, PatternApp& app) {
  if (PatternApp::Stream* stream = app.stream(input.ConsumeIntegralInRange<uint32_t>(0, 3))) {
    if (input.ConsumeBool()) return stream->name;
  }
  return {input.ConsumeIntegral<uint32_t>(), input.ConsumeIntegralInRange<uint32_t>(0, 8)};
}

/// Names of regions: the arena's, its own, another client's, later generations, and invalid ones.
uint32_t any_region(FuzzedDataProvider& input) {
  constexpr uint32_t kNames[] = {0,
                                 1,
                                 kLiarRegion,
                                 kLiarRegion + 1,
                                 kHonestRegion,
                                 kLiarRegion + kUse,
                                 kLiarRegion + kUse + 1};
  return input.ConsumeBool() ? input.PickValueInArray(kNames) : input.ConsumeIntegral<uint32_t>();
}

/// A submission whose fields are valid or not, as the input says.
channel::Submission any_submission(FuzzedDataProvider& input, PatternApp& app) {
  channel::Submission entry;
  entry.op = static_cast<channel::Op>(input.ConsumeIntegralInRange<uint8_t>(0, 10));
  entry.count = input.ConsumeIntegralInRange<uint8_t>(0, 12);
  entry.backlog = input.ConsumeIntegral<uint16_t>();
  entry.session = any_name(input, app);
  switch (entry.op) {
    case channel::Op::kConnect:
    case channel::Op::kListen: {
      auto& open = entry.body.open;
      open.cookie = input.ConsumeIntegralInRange<uint64_t>(0, 3);
      // This host, the other host, and addresses without a host.
      const IpAddress remote =
          IpAddress::v4(0x0a090001 + input.ConsumeIntegralInRange<uint8_t>(0, 3));
      std::memcpy(open.remote_address, remote.bytes.data(), 16);
      open.local_port = input.ConsumeIntegralInRange<uint16_t>(0, 3);
      open.remote_port =
          input.ConsumeBool() ? kServicePort : input.ConsumeIntegralInRange<uint16_t>(0, 3);
      break;
    }
    case channel::Op::kSend:
      entry.body.send = {.region = any_region(input),
                         .bytes = input.ConsumeIntegralInRange<uint32_t>(0, 70'000),
                         .offset = input.ConsumeBool()
                                       ? input.ConsumeIntegralInRange<uint64_t>(0, 1 << 20)
                                       : input.ConsumeIntegral<uint64_t>()};
      break;
    case channel::Op::kRelease:
      entry.copied_bytes = input.ConsumeIntegral<uint32_t>();
      for (uint32_t& slot : entry.body.release.slots) {
        slot = input.ConsumeIntegralInRange<uint32_t>(0, 150);
      }
      break;
    default:
      input.ConsumeData(entry.body.raw, sizeof entry.body.raw);
  }
  return entry;
}

/// Writes to any place in the context's memory: header, indices, entries, arena.
void poke(FuzzedDataProvider& input, ChannelClient& liar) {
  const auto offset = input.ConsumeIntegralInRange<uint32_t>(
      0, static_cast<uint32_t>(channel::kHeaderBytes + sizeof(channel::RingPair)));
  input.ConsumeData(liar.memory() + offset, input.ConsumeIntegralInRange<size_t>(1, 64));
}

/// The other host ends one of its connections, but not that of the honest client.
void close_far_end(FuzzedDataProvider& input, TwoWorkers& hosts, uint32_t honest) {
  const uint32_t index = input.ConsumeIntegralInRange<uint32_t>(0, 15);
  const PatternApp::Stream* stream = hosts.app_b->stream(index);
  if (index == honest || stream == nullptr) return;
  hosts.client_b->tell(channel::Op::kClose, stream->name);
}

void misbehave(FuzzedDataProvider& input, TwoWorkers& hosts, std::span<Liar> liars,
               uint32_t honest) {
  while (input.remaining_bytes() > 0) {
    Liar& liar = liars[input.ConsumeIntegralInRange<uint32_t>(0, kLiars - 1)];
    switch (input.ConsumeIntegralInRange<int>(0, 8)) {
      case 8:
        close_far_end(input, hosts, honest);
        break;
      case 7:
        liar.come_back();
        break;
      case 6:
        liar.remove_region();
        break;
      case 0:
      case 1:
        liar.client().submit(any_submission(input, liar.app()));
        break;
      case 2:
        poke(input, liar.client());
        break;
      case 3:
        liar.app().keeps_slots = input.ConsumeBool();
        break;
      default:
        for (int i = input.ConsumeIntegralInRange<int>(1, 40); i > 0; --i) hosts.turn();
    }
    hosts.a.worker().check_invariants(UINT32_MAX);
  }
}

}  // namespace
}  // namespace lyre::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre;
  using namespace lyre::test;
  FuzzedDataProvider input(data, size);
  // Small hosts: an input is cheap, and every limited resource runs out.
  constexpr HostOptions kSmall{.rx_slots = 128,
                               .connections_max = 16,
                               .contexts_max = kLiars + 1,
                               .places = {.sessions_per_client = 8,
                                          .sessions_per_user = 12,
                                          .listeners_per_client = 2,
                                          .listeners_per_user = 4}};
  const auto tx_release =
      input.ConsumeBool() ? io::sim::TxRelease::kOnReclaim : io::sim::TxRelease::kAtOnce;
  TwoWorkers hosts({.delay = micros(5), .frames_max = 64, .tx_release = tx_release}, kSmall,
                   kSmall);
  hosts.app_b->receive_seed = 1;
  require(hosts.connect(kServicePort));
  const channel::SessionName honest = hosts.app_a->only().name;
  const uint32_t stream = hosts.app_b->only().name.index;
  std::vector<uint8_t> honest_memory(kRegionBytes);
  hosts.client_a->add_region(kHonestRegion, honest_memory.data(), kRegionBytes);
  std::array<Liar, kLiars> liars{Liar(hosts, 1, input.ConsumeBool()),
                                 Liar(hosts, 2, input.ConsumeBool())};
  hosts.app_a->send_pattern(honest, 1, kHonestBytes, 6'000);
  misbehave(input, hosts, liars, stream);

  for (Liar& liar : liars) liar.detach();
  hosts.a.worker().check_invariants(UINT32_MAX);
  require(hosts.run_until([&] { return hosts.app_b->stream(stream)->received == kHonestBytes; }));
  require(hosts.app_b->stream(stream)->is_equal);
  return 0;
}
