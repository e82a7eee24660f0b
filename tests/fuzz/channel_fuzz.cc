#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/support/two_workers.h"

// A client that owns its shared memory and writes whatever it likes there, beside an honest client
// whose transfer must not notice: the channel ABI's promise.
namespace lyre::test {
namespace {

constexpr uint32_t kHonestBytes = 60'000;
constexpr uint32_t kLiarContext = 1;
constexpr uint32_t kUse = 1u << channel::kRegionIndexBits;
constexpr uint32_t kLiarRegion = kUse + worker::kContextsMax;
constexpr uint32_t kHonestRegion = kUse + worker::kContextsMax + 1;
constexpr uint32_t kRegionBytes = 64 * 1024;

channel::SessionName any_name(FuzzedDataProvider& input, PatternApp& app) {
  if (PatternApp::Stream* stream = app.stream(input.ConsumeIntegralInRange<uint32_t>(0, 3))) {
    if (input.ConsumeBool()) return stream->name;
  }
  return {input.ConsumeIntegral<uint32_t>(), input.ConsumeIntegralInRange<uint32_t>(0, 8)};
}

/// Names of regions: the arena's, its own, another client's, earlier uses, and nonsense.
uint32_t any_region(FuzzedDataProvider& input) {
  constexpr uint32_t kNames[] = {0, 1, kLiarRegion, kLiarRegion, kHonestRegion, kLiarRegion + kUse};
  return input.ConsumeBool() ? input.PickValueInArray(kNames) : input.ConsumeIntegral<uint32_t>();
}

/// A submission whose fields are plausible or not, as the input says.
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
      const IpAddress remote = IpAddress::v4(0x0a090000 + input.ConsumeIntegral<uint8_t>());
      std::memcpy(open.remote_address, remote.bytes.data(), 16);
      open.local_port = input.ConsumeIntegralInRange<uint16_t>(0, 3);
      open.remote_port = input.ConsumeBool() ? 5000 : input.ConsumeIntegral<uint16_t>();
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

/// Writes anywhere in the context's memory: header, indices, entries, arena.
void poke(FuzzedDataProvider& input, ChannelClient& liar) {
  const auto offset = input.ConsumeIntegralInRange<uint32_t>(
      0, static_cast<uint32_t>(channel::kHeaderBytes + sizeof(channel::RingPair)));
  input.ConsumeData(liar.memory() + offset, input.ConsumeIntegralInRange<size_t>(1, 64));
}

void misbehave(FuzzedDataProvider& input, TwoWorkers& hosts, ChannelClient& liar, PatternApp& app) {
  bool has_region = true;
  while (input.remaining_bytes() > 0) {
    switch (input.ConsumeIntegralInRange<int>(0, 6)) {
      case 6:
        if (std::exchange(has_region, false)) liar.remove_region(kLiarRegion);
        break;
      case 0:
      case 1:
        liar.submit(any_submission(input, app));
        break;
      case 2:
        poke(input, liar);
        break;
      case 3:
        app.keeps_slots = input.ConsumeBool();
        break;
      default:
        for (int i = input.ConsumeIntegralInRange<int>(1, 40); i > 0; --i) hosts.turn();
    }
  }
}

void require(bool claim) {
  if (!claim) std::abort();
}

}  // namespace
}  // namespace lyre::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre;
  using namespace lyre::test;
  FuzzedDataProvider input(data, size);
  // Small hosts: an input costs little, and what can run out does.
  constexpr HostOptions kSmall{.rx_slots = 128, .connections_max = 16};
  TwoWorkers hosts(
      {.delay = micros(5), .frames_max = 64, .holds_until_reclaim = input.ConsumeBool()}, kSmall,
      kSmall);
  hosts.app_b->receive_seed = 1;
  require(hosts.connect());
  const channel::SessionName honest = hosts.app_a->only().name;
  const uint32_t stream = hosts.app_b->only().name.index;
  ChannelClient liar(hosts.a.worker(), kLiarContext, input.ConsumeBool());
  PatternApp liar_app(liar);
  liar_app.checks_bytes = false;
  hosts.more_apps.push_back(&liar_app);
  std::vector<uint8_t> liar_memory(kRegionBytes);
  std::vector<uint8_t> honest_memory(kRegionBytes);
  liar.add_region(kLiarRegion, liar_memory.data(), kRegionBytes);
  hosts.client_a->add_region(kHonestRegion, honest_memory.data(), kRegionBytes);
  hosts.app_a->send_pattern(honest, 1, kHonestBytes, 6'000);
  misbehave(input, hosts, liar, liar_app);

  hosts.more_apps.clear();
  liar.detach();
  bool is_detached = false;
  require(hosts.run_until([&] {
    worker::Reply reply;
    while (hosts.a.worker().outbox().try_take(reply)) {
      is_detached |= reply.kind == worker::Reply::Kind::kDetached;
      require(reply.context == kLiarContext || reply.kind == worker::Reply::Kind::kRegionAdded);
    }
    return is_detached;
  }));
  require(hosts.run_until([&] { return hosts.app_b->stream(stream)->received == kHonestBytes; }));
  require(hosts.app_b->stream(stream)->is_equal);
  return 0;
}
