#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/transport/verbs/library.h"
#include "stack/base/rng.h"
#include "tests/sim/adapter/events.h"
#include "tests/sim/adapter/rdma_objects.h"

/// RDMA devices of the simulated hosts: libibverbs, as the plugin calls it, over reliable
/// connections in virtual time. Completions come late and in order. What a queue pair had under way
/// when it broke, or was destroyed, may arrive up to half a second later, as long as the other end
/// is there. What a real device would punish silently is an error of the world: a send without a
/// receive posted for it, memory that is not registered or not any more, a write to memory that is
/// not exposed, an object that outlives what it is made of, too many completions.
namespace lyre::adapter_sim {

struct RdmaSettings {
  int64_t delay_ns = 5 * kUs;      ///< of a send and of its acknowledgement, up to twice that
  int64_t lateness_ns = 20 * kUs;  ///< of completions, at most
  bool is_one_network = false;     ///< of all devices; else the first ones of hosts share one, the
                                   ///< second ones, and so on, and do not reach the others
};

class RdmaNetwork {
 public:
  RdmaNetwork(const RdmaSettings& settings, Events& events, uint64_t seed);
  ~RdmaNetwork();
  RdmaNetwork(const RdmaNetwork&) = delete;
  RdmaNetwork& operator=(const RdmaNetwork&) = delete;

  void add_device(size_t host);
  int64_t now_ns() const { return events_.now_ns(); }
  /// Which host calls, and which process of it.
  std::function<size_t()> host_of_caller = [] { return size_t{0}; };
  std::function<uint32_t()> process_of_caller = [] { return 0u; };
  /// Something is not as it must be.
  std::function<void(const std::string&)> on_wrong = [](const std::string&) {};
  /// Called when there is a completion or an event for a process.
  std::function<void(uint32_t process)> on_news = [](uint32_t) {};

  // ---- What breaks ----

  /// A queue pair that is connected, if there is one, goes to the error state. What it had under
  /// way arrives or not.
  void break_queue_pair();
  /// The same for one that has a write under way. False: there is none.
  bool break_writing();
  /// The devices of the host are gone, with a word or without; they are there again, as new ones.
  void remove_devices(size_t host, bool says_so);
  /// The kernel takes them away, and waits until nobody has them open: until then they work.
  void delete_devices(size_t host);
  void return_devices(size_t host);
  /// Nothing gets through between the devices of the two hosts.
  void cut(size_t host, size_t other, int64_t until_ns);
  /// The same between these two devices, for ever.
  void cut(const RdmaDevice& device, const RdmaDevice& other);
  /// What arrives from now on is not acknowledged.
  void lose_acknowledgements() { loses_acknowledgements_ = true; }
  /// The process is gone, and what it had open.
  void kill_process(uint32_t process);

  // ---- What there is ----

  /// Queue pairs that can send, with a counterpart that can, too.
  /// `device`: of that one only.
  size_t connected(const RdmaDevice* device = nullptr) const;
  uint64_t delivered_bytes() const { return delivered_bytes_; }
  struct Writes {
    uint64_t bytes = 0;  ///< of those that were delivered
    uint64_t late = 0;   ///< sends and writes that arrived after their queue pair was lost
  };
  const Writes& writes() const { return writes_; }
  uint64_t broken() const { return broken_; }
  size_t open_contexts() const { return contexts_.size(); }

  // ---- For the table of functions ----

  const std::vector<std::unique_ptr<RdmaDevice>>& devices() const { return devices_; }
  RdmaContext* open(RdmaDevice* device);
  void close(RdmaContext* context);
  RdmaQueuePair* create(RdmaContext* context, const ibv_qp_init_attr& attr);
  int modify(RdmaQueuePair* queue_pair, const ibv_qp_attr& attr, int mask);
  void destroy(RdmaQueuePair* queue_pair);
  int post_send(RdmaQueuePair* queue_pair, const ibv_send_wr& request);
  int post_receive(RdmaQueuePair* queue_pair, const ibv_recv_wr& request);
  /// No queue pair that works may need it.
  void check_unused(const ibv_mr* mr);
  void check_unused(const ibv_cq* completions);
  void expect(bool holds, const std::string& what) {
    if (!holds) on_wrong(what);
  }

 private:
  /// nullptr: there is none, or it is in another network.
  RdmaQueuePair* counterpart(const RdmaQueuePair& queue_pair) const;
  bool is_cut(const RdmaQueuePair& from, const RdmaQueuePair& to) const;
  void start(RdmaQueuePair* queue_pair);
  void arrive(uint64_t id);
  void deliver(RdmaQueuePair& from, RdmaQueuePair& to);
  void acknowledge(uint64_t id, int tries);
  /// A send or a write on its way, as it left.
  struct Packet {
    bool is_write;
    uint64_t remote_addr;
    uint32_t rkey;
    std::vector<uint8_t> bytes;
  };
  Packet packet_of(const RdmaQueuePair& from, const RdmaQueuePair::Send& send);
  bool land(const Packet& packet, RdmaQueuePair& to);
  void leave_behind(const RdmaQueuePair& from);
  void arrive_late(uint64_t id, uint32_t psn, const std::vector<Packet>& packets);
  void fail(RdmaQueuePair& queue_pair, ibv_wc_status first);
  void end(RdmaContext* context);
  void complete(RdmaQueuePair& queue_pair, ibv_wc entry);
  RdmaQueuePair* find(uint64_t id) const;
  uint32_t free_number(const RdmaDevice& device) const;

  struct Cut {
    size_t host;
    size_t other;
    int64_t until_ns;
  };

  RdmaSettings settings_;
  Events& events_;
  Rng rng_;
  std::vector<std::unique_ptr<RdmaDevice>> devices_;
  std::vector<std::unique_ptr<RdmaContext>> contexts_;
  std::vector<std::unique_ptr<RdmaQueuePair>> queue_pairs_;  ///< in order of making
  std::vector<Cut> cuts_;
  std::vector<std::pair<const RdmaDevice*, const RdmaDevice*>> cut_devices_;
  uint64_t made_ = 0;
  uint64_t delivered_bytes_ = 0;
  Writes writes_;
  bool loses_acknowledgements_ = false;
  uint64_t broken_ = 0;
};

/// The network that the functions of the table work on; nullptr: hosts have no libibverbs.
void set_rdma(RdmaNetwork* network);
RdmaNetwork* rdma();
const nccl_adapter::VerbsApi& rdma_api();

}  // namespace lyre::adapter_sim
