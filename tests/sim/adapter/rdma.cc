#include "tests/sim/adapter/rdma.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "tests/sim/adapter/rdma_objects.h"

namespace lyre::adapter_sim {
namespace {

constexpr int64_t kRetryNs = 67 * kMs;  // where no timeout is set
constexpr int kRetriesMax = 7;
constexpr uint32_t k24Bits = (1u << 24) - 1;
constexpr uint32_t kFirstNumber = 17;
constexpr size_t kNetworkByte = 14;  // of a GID

bool is_inside(const ibv_mr& mr, const ibv_sge& piece) {
  const auto from = reinterpret_cast<uintptr_t>(mr.addr);
  return mr.lkey == piece.lkey && piece.addr >= from &&
         piece.addr + piece.length <= from + mr.length;
}

bool is_registered(const RdmaContext& context, const ibv_sge& piece) {
  return std::any_of(context.mrs.begin(), context.mrs.end(),
                     [&](const auto& own) { return is_inside(own->mr, piece); });
}

bool is_exposed(const RdmaQueuePair& to, uint32_t rkey, uint64_t addr, size_t bytes) {
  return to.takes_writes &&
         std::any_of(to.context->mrs.begin(), to.context->mrs.end(), [&](const auto& own) {
           const auto from = reinterpret_cast<uintptr_t>(own->mr.addr);
           return own->mr.rkey == rkey && (own->access & IBV_ACCESS_REMOTE_WRITE) != 0 &&
                  addr >= from && addr + bytes <= from + own->mr.length;
         });
}

}  // namespace

RdmaNetwork::RdmaNetwork(const RdmaSettings& settings, Events& events, uint64_t seed)
    : settings_(settings), events_(events), rng_(seed) {}

RdmaNetwork::~RdmaNetwork() = default;

void RdmaNetwork::add_device(size_t host) {
  auto device = std::make_unique<RdmaDevice>();
  device->host = host;
  const auto index = std::count_if(devices_.begin(), devices_.end(),
                                   [&](const auto& other) { return other->host == host; });
  std::snprintf(device->device.name, sizeof device->device.name, "sim%d", static_cast<int>(index));
  device->device.transport_type = IBV_TRANSPORT_IB;
  const auto number = static_cast<uint8_t>(index);
  const auto host_number = static_cast<uint8_t>(host + 1);
  const uint8_t network = settings_.is_one_network ? 0 : number;
  const auto node =
      static_cast<uint8_t>(settings_.is_one_network ? host_number * 16 + number : host_number);
  const uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 200, network, node};
  std::copy(std::begin(gid), std::end(gid), device->gid);
  devices_.push_back(std::move(device));
}

// ---- Objects ----

RdmaContext* RdmaNetwork::open(RdmaDevice* device) {
  auto context = std::make_unique<RdmaContext>();
  context->device = device;
  context->process = process_of_caller();
  contexts_.push_back(std::move(context));
  return contexts_.back().get();
}

void RdmaNetwork::close(RdmaContext* context) {
  expect(context->objects == 0 && context->mrs.empty(), "a device is closed with objects of its");
  std::erase_if(contexts_, [&](const auto& own) { return own.get() == context; });
}

uint32_t RdmaNetwork::free_number(const RdmaDevice& device) const {
  uint32_t number = kFirstNumber;
  const auto is_used = [&](const auto& other) {
    return other->context->device == &device && other->qp.qp_num == number;
  };
  while (std::any_of(queue_pairs_.begin(), queue_pairs_.end(), is_used)) ++number;
  return number;
}

RdmaQueuePair* RdmaNetwork::create(RdmaContext* context, const ibv_qp_init_attr& attr) {
  auto made = std::make_unique<RdmaQueuePair>();
  made->id = ++made_;
  made->context = context;
  made->completions = reinterpret_cast<RdmaCompletions*>(attr.send_cq);
  made->cap = attr.cap;
  made->cap.max_inline_data = std::min(attr.cap.max_inline_data, context->device->inline_bytes_max);
  made->retry_ns = kRetryNs;
  made->qp.qp_num = free_number(*context->device);  // used again at once
  made->qp.state = IBV_QPS_RESET;
  queue_pairs_.push_back(std::move(made));
  return queue_pairs_.back().get();
}

int RdmaNetwork::modify(RdmaQueuePair* queue_pair, const ibv_qp_attr& attr, int mask) {
  RdmaQueuePair& own = *queue_pair;
  if (own.context->is_gone) return EIO;
  const ibv_qp_state before = own.qp.state;
  const bool is_step = (attr.qp_state == IBV_QPS_INIT && before == IBV_QPS_RESET) ||
                       (attr.qp_state == IBV_QPS_RTR && before == IBV_QPS_INIT) ||
                       (attr.qp_state == IBV_QPS_RTS && before == IBV_QPS_RTR);
  if (attr.qp_state == IBV_QPS_ERR) {
    fail(own, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  expect(is_step, "a queue pair skips a state");
  if ((mask & IBV_QP_AV) != 0) {
    std::copy(std::begin(attr.ah_attr.grh.dgid.raw), std::end(attr.ah_attr.grh.dgid.raw),
              own.remote_gid);
    own.remote_number = attr.dest_qp_num;
    own.expected_psn = attr.rq_psn;
    expect(attr.ah_attr.is_global == 1 && attr.ah_attr.grh.sgid_index == 1, "another address");
    expect(attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_1024, "another MTU");
  }
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    own.takes_writes = (attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
  }
  if ((mask & IBV_QP_SQ_PSN) != 0) own.next_psn = attr.sq_psn;
  if ((mask & IBV_QP_TIMEOUT) != 0) own.retry_ns = int64_t{4096} << attr.timeout;
  own.qp.state = attr.qp_state;
  return 0;
}

// A real completion queue may keep the entries of what was destroyed, or not.
void RdmaNetwork::destroy(RdmaQueuePair* queue_pair) {
  if (rng_.chance_ppm(500'000)) {
    std::erase_if(queue_pair->completions->entries,
                  [&](const auto& entry) { return entry.wc.qp_num == queue_pair->qp.qp_num; });
  }
  std::erase_if(queue_pairs_, [&](const auto& own) { return own.get() == queue_pair; });
}

void RdmaNetwork::check_unused(const ibv_mr* mr) {
  for (const auto& own : queue_pairs_) {
    if (own->qp.state == IBV_QPS_ERR || own->context->is_gone) continue;
    for (const auto& send : own->sends) {
      for (const ibv_sge& piece : send.pieces) {
        expect(!is_inside(*mr, piece), "memory is deregistered that a send may read");
      }
    }
    for (const auto& receive : own->receives) {
      expect(!is_inside(*mr, receive.piece), "memory is deregistered that a receive may write");
    }
  }
}

void RdmaNetwork::check_unused(const ibv_cq* completions) {
  for (const auto& own : queue_pairs_) {
    expect(&own->completions->cq != completions, "a completion queue is destroyed that is in use");
  }
}

// ---- Sending ----

int RdmaNetwork::post_send(RdmaQueuePair* queue_pair, const ibv_send_wr& request) {
  RdmaQueuePair& own = *queue_pair;
  if (own.context->is_gone) return 0;
  if (own.qp.state != IBV_QPS_RTS && own.qp.state != IBV_QPS_ERR) return EINVAL;
  expect(own.sends.size() < own.cap.max_send_wr, "more sends are posted than were asked for");
  expect(request.num_sge >= 1 && request.num_sge <= static_cast<int>(own.cap.max_send_sge),
         "a send has too many pieces");
  RdmaQueuePair::Send send{.wr_id = request.wr_id,
                           .is_signalled = (request.send_flags & IBV_SEND_SIGNALED) != 0,
                           .inlined = {},
                           .pieces = {},
                           .is_write = request.opcode == IBV_WR_RDMA_WRITE,
                           .remote_addr = request.wr.rdma.remote_addr,
                           .rkey = request.wr.rdma.rkey};
  const std::span<const ibv_sge> pieces(request.sg_list, static_cast<size_t>(request.num_sge));
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    for (const ibv_sge& piece : pieces) {
      const auto* data = reinterpret_cast<const uint8_t*>(piece.addr);
      send.inlined.insert(send.inlined.end(), data, data + piece.length);
    }
    expect(send.inlined.size() <= own.cap.max_inline_data, "too much is sent inline");
  } else {
    send.pieces.assign(pieces.begin(), pieces.end());
  }
  own.sends.push_back(std::move(send));
  if (own.qp.state == IBV_QPS_ERR) {
    fail(own, IBV_WC_WR_FLUSH_ERR);
  } else {
    start(&own);
  }
  return 0;
}

int RdmaNetwork::post_receive(RdmaQueuePair* queue_pair, const ibv_recv_wr& request) {
  RdmaQueuePair& own = *queue_pair;
  if (own.context->is_gone) return 0;
  if (own.qp.state == IBV_QPS_RESET) return EINVAL;
  expect(request.num_sge == 1, "a receive has more than one piece");
  expect(own.receives.size() < own.cap.max_recv_wr, "more receives are posted than asked for");
  own.receives.push_back({request.wr_id, request.sg_list[0]});
  if (own.qp.state == IBV_QPS_ERR) fail(own, IBV_WC_WR_FLUSH_ERR);
  return 0;
}

RdmaQueuePair* RdmaNetwork::find(uint64_t id) const {
  const auto found = std::find_if(queue_pairs_.begin(), queue_pairs_.end(),
                                  [&](const auto& own) { return own->id == id; });
  return found != queue_pairs_.end() ? found->get() : nullptr;
}

// One at a time: a reliable connection keeps the order.
void RdmaNetwork::start(RdmaQueuePair* queue_pair) {
  RdmaQueuePair& own = *queue_pair;
  const bool is_any_left = std::any_of(own.sends.begin(), own.sends.end(),
                                       [](const auto& send) { return !send.has_arrived; });
  if (own.is_sending || !is_any_left || !own.can_send()) return;
  own.is_sending = true;
  own.retries = 0;
  const auto spread = static_cast<int64_t>(rng_.below(static_cast<uint64_t>(settings_.delay_ns)));
  events_.after(settings_.delay_ns + spread, [this, id = own.id] { arrive(id); });
}

RdmaQueuePair* RdmaNetwork::counterpart(const RdmaQueuePair& queue_pair) const {
  for (const auto& other : queue_pairs_) {
    const RdmaDevice& device = *other->context->device;
    if (device.gid[kNetworkByte] != queue_pair.context->device->gid[kNetworkByte]) continue;
    if (other->qp.qp_num == queue_pair.remote_number && other->works() &&
        std::memcmp(device.gid, queue_pair.remote_gid, sizeof device.gid) == 0) {
      return other.get();
    }
  }
  return nullptr;
}

bool RdmaNetwork::is_cut(const RdmaQueuePair& from, const RdmaQueuePair& to) const {
  const std::pair<const RdmaDevice*, const RdmaDevice*> path(from.context->device,
                                                             to.context->device);
  for (const auto& [one, other] : cut_devices_) {
    if (path == std::pair(one, other) || path == std::pair(other, one)) return true;
  }
  const size_t a = from.context->device->host;
  const size_t b = to.context->device->host;
  return std::any_of(cuts_.begin(), cuts_.end(), [&](const Cut& cut) {
    return events_.now_ns() < cut.until_ns &&
           ((cut.host == a && cut.other == b) || (cut.host == b && cut.other == a));
  });
}

void RdmaNetwork::arrive(uint64_t id) {
  RdmaQueuePair* own = find(id);
  if (own == nullptr) return;
  RdmaQueuePair* to = counterpart(*own);
  if (!own->can_send()) {
    own->is_sending = false;
    return;
  }
  // A queue pair that has this one's number from before takes nothing of it.
  if (to == nullptr || is_cut(*own, *to) || to->expected_psn != own->next_psn) {
    if (++own->retries > kRetriesMax) return fail(*own, IBV_WC_RETRY_EXC_ERR);
    return events_.after(own->retry_ns, [this, id] { arrive(id); });
  }
  own->is_sending = false;
  deliver(*own, *to);
  start(own);
}

void RdmaNetwork::deliver(RdmaQueuePair& from, RdmaQueuePair& to) {
  const auto next = std::find_if(from.sends.begin(), from.sends.end(),
                                 [](const auto& send) { return !send.has_arrived; });
  if (!land(packet_of(from, *next), to)) return;
  next->has_arrived = true;
  from.next_psn = (from.next_psn + 1) & k24Bits;
  events_.after(settings_.delay_ns, [this, id = from.id] { acknowledge(id, 0); });
}

RdmaNetwork::Packet RdmaNetwork::packet_of(const RdmaQueuePair& from,
                                           const RdmaQueuePair::Send& send) {
  Packet packet{send.is_write, send.remote_addr, send.rkey, send.inlined};
  for (const ibv_sge& piece : send.pieces) {
    expect(is_registered(*from.context, piece), "a send reads memory that is not registered");
    const auto* data = reinterpret_cast<const uint8_t*>(piece.addr);
    packet.bytes.insert(packet.bytes.end(), data, data + piece.length);
  }
  return packet;
}

// False where it finds no place.
bool RdmaNetwork::land(const Packet& packet, RdmaQueuePair& to) {
  const size_t bytes = packet.bytes.size();
  if (packet.is_write) {
    const bool may_write = is_exposed(to, packet.rkey, packet.remote_addr, bytes);
    expect(may_write, "a write goes to memory that is not exposed");
    if (!may_write) return false;
    std::memcpy(reinterpret_cast<void*>(packet.remote_addr), packet.bytes.data(), bytes);
    writes_.bytes += bytes;
  } else {
    expect(!to.receives.empty(), "a send arrives where no receive is posted");
    if (to.receives.empty()) return false;
    const RdmaQueuePair::Receive receive = to.receives.front();
    to.receives.pop_front();
    expect(bytes <= receive.piece.length, "a send is larger than its receive");
    expect(is_registered(*to.context, receive.piece), "a receive writes memory that is not there");
    std::memcpy(reinterpret_cast<void*>(receive.piece.addr), packet.bytes.data(),
                std::min<size_t>(bytes, receive.piece.length));
    ibv_wc entry{};
    entry.wr_id = receive.wr_id;
    entry.byte_len = static_cast<uint32_t>(bytes);
    complete(to, entry);
  }
  to.expected_psn = (to.expected_psn + 1) & k24Bits;
  delivered_bytes_ += bytes;
  return true;
}

// Acknowledgements are lost where a path is cut.
void RdmaNetwork::acknowledge(uint64_t id, int tries) {
  RdmaQueuePair* own = find(id);
  if (own == nullptr || !own->can_send() || own->sends.empty()) return;
  const RdmaQueuePair* to = counterpart(*own);
  if (loses_acknowledgements_ || (to != nullptr && is_cut(*own, *to))) {
    if (tries == kRetriesMax) return fail(*own, IBV_WC_RETRY_EXC_ERR);
    return events_.after(own->retry_ns, [this, id, tries] { acknowledge(id, tries + 1); });
  }
  const RdmaQueuePair::Send sent = std::move(own->sends.front());
  own->sends.pop_front();
  ibv_wc done{};
  done.wr_id = sent.wr_id;
  if (sent.is_signalled) complete(*own, done);
}

// What is in the network when a queue pair ends: nothing, or the next of its packets, the last of
// them perhaps in part.
void RdmaNetwork::leave_behind(const RdmaQueuePair& from) {
  const RdmaQueuePair* to = counterpart(from);
  if (to == nullptr || !from.can_send() || rng_.chance_ppm(300'000)) return;
  std::vector<Packet> packets;
  for (const auto& send : from.sends) {
    if (send.has_arrived) continue;
    packets.push_back(packet_of(from, send));
    if (rng_.chance_ppm(300'000)) break;
  }
  if (packets.empty()) return;
  if (packets.back().is_write && rng_.chance_ppm(500'000)) {
    packets.back().bytes.resize(rng_.below(packets.back().bytes.size()) + 1);
  }
  const int64_t late_ns = kUs << rng_.below(20);
  events_.after(late_ns, [this, id = to->id, psn = from.next_psn, packets] {
    arrive_late(id, psn, packets);
  });
}

void RdmaNetwork::arrive_late(uint64_t id, uint32_t psn, const std::vector<Packet>& packets) {
  RdmaQueuePair* to = find(id);
  if (to == nullptr || !to->works() || to->expected_psn != psn) return;
  for (const Packet& packet : packets) {
    if (!packet.is_write && to->receives.empty()) return;
    if (!land(packet, *to)) return;
    ++writes_.late;
  }
}

void RdmaNetwork::complete(RdmaQueuePair& queue_pair, ibv_wc entry) {
  RdmaCompletions& to = *queue_pair.completions;
  entry.qp_num = queue_pair.qp.qp_num;
  const auto late = static_cast<int64_t>(rng_.below(static_cast<uint64_t>(settings_.lateness_ns)));
  to.last_ns = std::max(to.last_ns, events_.now_ns() + late);
  to.entries.push_back({entry, to.last_ns});
  expect(to.entries.size() <= to.capacity, "a completion queue overflows");
  events_.at(to.last_ns, [this, process = queue_pair.context->process] { on_news(process); });
}

// ---- What breaks ----

void RdmaNetwork::fail(RdmaQueuePair& queue_pair, ibv_wc_status first) {
  leave_behind(queue_pair);
  queue_pair.qp.state = IBV_QPS_ERR;
  for (const auto& send : std::exchange(queue_pair.sends, {})) {
    ibv_wc entry{};
    entry.wr_id = send.wr_id;
    entry.status = std::exchange(first, IBV_WC_WR_FLUSH_ERR);
    complete(queue_pair, entry);
  }
  for (const auto& receive : std::exchange(queue_pair.receives, {})) {
    ibv_wc entry{};
    entry.wr_id = receive.wr_id;
    entry.status = std::exchange(first, IBV_WC_WR_FLUSH_ERR);
    complete(queue_pair, entry);
  }
}

void RdmaNetwork::break_queue_pair() {
  std::vector<RdmaQueuePair*> working;
  for (const auto& own : queue_pairs_) {
    if (own->works()) working.push_back(own.get());
  }
  if (working.empty()) return;
  ++broken_;
  fail(*working[rng_.below(working.size())], IBV_WC_FATAL_ERR);
}

bool RdmaNetwork::break_writing() {
  for (const auto& own : queue_pairs_) {
    const bool is_writing =
        own->can_send() && std::any_of(own->sends.begin(), own->sends.end(), [](const auto& send) {
          return send.is_write && !send.has_arrived;
        });
    if (!is_writing) continue;
    ++broken_;
    fail(*own, IBV_WC_FATAL_ERR);
    return true;
  }
  return false;
}

void RdmaNetwork::remove_devices(size_t host, bool says_so) {
  for (const auto& device : devices_) {
    if (device->host == host) device->is_there = false;
  }
  for (const auto& context : contexts_) {
    if (context->device->host != host || context->is_gone) continue;
    ++broken_;
    end(context.get());
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    if (!says_so) continue;
    context->events.push_back(event);
    on_news(context->process);
  }
}

void RdmaNetwork::end(RdmaContext* context) {
  for (const auto& own : queue_pairs_) {
    if (own->context == context) leave_behind(*own);
  }
  context->is_gone = true;
}

void RdmaNetwork::delete_devices(size_t host) {
  for (const auto& device : devices_) {
    if (device->host != host) continue;
    device->is_there = false;
    device->is_deleted = true;
  }
}

void RdmaNetwork::return_devices(size_t host) {
  const size_t count = devices_.size();
  for (size_t i = 0; i < count; ++i) {
    RdmaDevice& gone = *devices_[i];
    if (gone.host != host || gone.is_there || gone.has_returned) continue;
    gone.has_returned = true;
    auto device = std::make_unique<RdmaDevice>(gone);
    device->is_there = true;
    device->has_returned = device->is_deleted = false;
    devices_.push_back(std::move(device));
  }
}

void RdmaNetwork::cut(size_t host, size_t other, int64_t until_ns) {
  cuts_.push_back({host, other, until_ns});
}

void RdmaNetwork::cut(const RdmaDevice& device, const RdmaDevice& other) {
  cut_devices_.emplace_back(&device, &other);
}

void RdmaNetwork::kill_process(uint32_t process) {
  for (const auto& context : contexts_) {
    if (context->process == process && !context->is_gone) end(context.get());
  }
}

size_t RdmaNetwork::connected(const RdmaDevice* device) const {
  return static_cast<size_t>(
      std::count_if(queue_pairs_.begin(), queue_pairs_.end(), [&](const auto& own) {
        if (device != nullptr && own->context->device != device) return false;
        const RdmaQueuePair* other = own->can_send() ? counterpart(*own) : nullptr;
        return other != nullptr && other->can_send() && counterpart(*other) == own.get();
      }));
}

}  // namespace lyre::adapter_sim
