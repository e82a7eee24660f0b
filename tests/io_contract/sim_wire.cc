#include "stack/io/sim/link.h"
#include "tests/io_contract/wire.h"

namespace lyre::io::contract {
namespace {

class SimWire final : public Wire {
 public:
  explicit SimWire(const WireOptions& options)
      : memories_{sim::Memory(memory_options(options)), sim::Memory(memory_options(options))},
        link_({.mtu_bytes = options.mtu_bytes,
               .delay = micros(3),
               .frames_max = 512,
               .tx_release = io::sim::TxRelease::kOnReclaim}) {
    for (int end = 0; end < 2; ++end) link_.add_queue(end, memories_[end]);
  }
  PacketMemory& memory(int end) override { return memories_[end]; }
  PacketIo& io(int end) override { return link_.queue(end, 0); }
  void pass_time() override { link_.advance(link_.now() + micros(5)); }

 private:
  static sim::MemoryOptions memory_options(const WireOptions& options) {
    return {.rx_slots = options.rx_slots,
            .frame_bytes = options.mtu_bytes + 18,
            .tx_packets = options.tx_packets};
  }
  sim::Memory memories_[2];
  sim::Link link_;
};

}  // namespace

const Backend& backend() {
  static constexpr Backend kSim{
      .name = "sim", .is_lossless = true, .mtu_bytes_max = 9000, .has_wait_fd = false};
  return kSim;
}

Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options) {
  return std::unique_ptr<Wire>(std::make_unique<SimWire>(options));
}

}  // namespace lyre::io::contract
