#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stack/io/backend.h"
#include "stack/io/sim/link.h"
#include "stack/io/sim/memory.h"

namespace lyre {

/// What a test sees of a port, and decides; outlives it.
struct SimPortState {
  io::PortOptions options;
  std::vector<MacAddress> groups;
  bool needs_restart = false;
  bool can_restart = true;
  bool waits_for_memory = false;
  std::string steps;  ///< s, r, c for suspend, restart and continue; x: closed
  int restarts = 0;
  bool is_up = true;
  io::PortState state = io::PortState::kRunning;
  int looks = 0;
  std::function<void()> on_look;  ///< may be empty
  io::PortSpeed speed;
  io::PortInfo info;
  std::vector<io::DeviceCounter> counters;
  io::sim::Link* link = nullptr;  ///< the port is its end 0
};

/// A device "ring:N" takes N receive slots of each memory, like the ring of a NIC.
inline uint32_t ring_slots_of(const std::string& device) {
  return device.starts_with("ring:") ? static_cast<uint32_t>(std::stoul(device.substr(5))) : 0;
}

/// A device "queues:N" can have N queue pairs.
inline uint32_t queue_pairs_of(const std::string& device) {
  return device.starts_with("queues:") ? static_cast<uint32_t>(std::stoul(device.substr(7))) : 0;
}

/// One end of a simulated wire that has nothing at its other end.
class SimPort : public io::Port {
 public:
  SimPort(SimPortState& state, std::span<io::PacketMemory* const> memories)
      : state_(state),
        link_(io::sim::LinkOptions{.mtu_bytes = state.options.mtu_bytes,
                                   .tso_bytes_max = state.options.has_super_packets ? 65'000u : 0u,
                                   .has_super_packets = state.options.has_super_packets}) {
    for (io::PacketMemory* memory : memories) {
      link_.add_queue(0, static_cast<io::sim::Memory&>(*memory), state.options.index);
      for (uint32_t i = ring_slots_of(state.options.device); i > 0; --i) memory->alloc_rx();
    }
    state.link = &link_;
    state.info.name = state.options.device;
    state.info.driver = "sim";
    state.info.queue_count = static_cast<uint32_t>(memories.size());
    state.info.capabilities = link_.queue(0, 0).capabilities();
  }

  const io::PortInfo& info() const override { return state_.info; }
  io::PacketIo& queue(uint32_t worker) override { return link_.queue(0, worker); }
  bool is_link_up() const override { return state_.is_up && link_.is_up(); }
  io::PortSpeed speed() const override { return state_.speed; }
  io::PortState state() const override { return state_.state; }
  void look(Nanos) override {
    ++state_.looks;
    if (state_.on_look) state_.on_look();
  }
  uint64_t rx_missed() override { return 0; }
  std::vector<io::DeviceCounter> device_counters() const override { return state_.counters; }
  Status join(std::span<const MacAddress> groups) override {
    state_.groups.assign(groups.begin(), groups.end());
    return Ok{};
  }
  bool needs_restart() const override { return state_.needs_restart; }
  void suspend() override { state_.steps += 's'; }
  Status restart() override {
    ++state_.restarts;
    state_.steps += 'r';
    if (!state_.can_restart) return Error{EIO, "sim: cannot be opened"};
    state_.needs_restart = false;
    return Ok{};
  }
  bool waits_for_memory() const override { return state_.waits_for_memory; }
  void resume() override { state_.steps += 'c'; }
  void close() override {
    state_.steps += 'x';
    state_.needs_restart = true;
  }

 private:
  SimPortState& state_;
  io::sim::Link link_;
};

/// A NIC API of simulated ports. The device "none" cannot be opened.
class SimBackend : public io::Backend {
 public:
  using Ports = std::vector<std::unique_ptr<SimPortState>>;
  explicit SimBackend(Ports& ports) : ports_(ports) {}

  bool has_hugepages() const override { return false; }
  bool uses_physical_addresses() const override { return false; }
  uint32_t queue_pairs_max(const std::string& device) const override {
    return queue_pairs_of(device);
  }
  Result<std::unique_ptr<io::PacketMemory>> make_memory(uint32_t,
                                                        const io::MemoryOptions& options) override {
    return std::unique_ptr<io::PacketMemory>(
        std::make_unique<io::sim::Memory>(io::sim::MemoryOptions{
            .rx_slots = options.rx_slots, .frame_bytes = options.mtu_bytes + kFrameOverheadBytes}));
  }
  Result<std::unique_ptr<io::Port>> open_port(
      const io::PortOptions& options, std::span<io::PacketMemory* const> memories) override {
    if (options.device == "none") return Error{ENODEV, "none: is not there"};
    ports_.push_back(std::make_unique<SimPortState>(SimPortState{.options = options}));
    return std::unique_ptr<io::Port>(std::make_unique<SimPort>(*ports_.back(), memories));
  }
  Status map_for_ports(const io::RegionMemory&) override { return Ok{}; }
  void unmap_for_ports(const io::RegionMemory&) override {}
  Status register_worker_thread() override { return Ok{}; }
  void unregister_worker_thread() override {}

 private:
  static constexpr uint32_t kFrameOverheadBytes = 14 + 4;
  Ports& ports_;
};

}  // namespace lyre
