#include "nccl_adapter/transport/verbs/queue_pair.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/verbs/memory_error.h"

namespace lyre::nccl_adapter {
namespace {

constexpr std::align_val_t kAlignment{4096};
constexpr size_t kMemoryBytes = size_t{2} * kQueuePairSlots * kQueuePairSlotBytes;
/// Each send may have a write before it.
constexpr uint32_t kSendRequests = 2 * kQueuePairSlots;
/// Each receive, each send and each write gives one entry at most.
constexpr uint32_t kEntries = kQueuePairSlots + kSendRequests;
/// The lower half of wr_id: a slot of the ring, or the count of sends and writes.
constexpr uint32_t kReceiveBit = 1u << 31;
constexpr uint32_t kIndexMask = kReceiveBit - 1;
/// Asked for; a device that has no room for them is asked again without.
constexpr uint32_t kInlineBytes = 96;
constexpr uint8_t kHopLimit = 64;
constexpr uint8_t kRetries = 7;
/// The timeout that a queue pair is given is this times 2^N.
constexpr int64_t kTimeoutUnitNs = 4096;
/// Without end. There are no more sends under way than receives, so it is for devices that are
/// late with those.
constexpr uint8_t kRnrRetries = 7;
constexpr uint8_t kRnrTimer = 12;  ///< 0.64 ms
static_assert(kQueuePairSlots >= kSlotsMin && kQueuePairSlotBytes >= kSlotBytesMin);
static_assert(kQueuePairSlots <= kSlotsMax && kQueuePairSlotBytes <= kSlotBytesMax);

ibv_mtu mtu_of(uint32_t bytes) { return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7); }

std::string address_text(const Address& address) {
  const std::string text = to_string(make_addr(address, 0));
  return text.substr(0, text.rfind(":0"));
}

std::string failed(const char* what, int code) {
  return std::string(what) + " failed: " + std::strerror(code);
}

ibv_sge piece_of(const uint8_t* data, size_t bytes, const ibv_mr* mr) {
  return {.addr = reinterpret_cast<uintptr_t>(data),
          .length = static_cast<uint32_t>(bytes),
          .lkey = mr->lkey};
}

ibv_send_wr send_request(bool is_signalled) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = is_signalled ? IBV_SEND_SIGNALED : 0;
  return request;
}

int to_init(const VerbsApi& api, ibv_qp* qp, uint8_t port, bool takes_writes) {
  ibv_qp_attr attr{};
  if (takes_writes) attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = port;
  return api.modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_receive(const VerbsApi& api, ibv_qp* qp, ibv_qp_attr attr, const QueuePairTerms& peer) {
  attr.qp_state = IBV_QPS_RTR;
  attr.dest_qp_num = peer.number;
  attr.rq_psn = peer.first_psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kRnrTimer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.hop_limit = kHopLimit;
  std::copy(peer.gid.begin(), peer.gid.end(), std::begin(attr.ah_attr.grh.dgid.raw));
  return api.modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_send(const VerbsApi& api, ibv_qp* qp, uint32_t first_psn, uint8_t timeout) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = timeout;
  attr.retry_cnt = kRetries;
  attr.rnr_retry = kRnrRetries;
  attr.sq_psn = first_psn;
  attr.max_rd_atomic = 1;
  return api.modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace

QueuePair::QueuePair(const VerbsPlace& place, const Use& use)
    : device_(*place.device),
      api_(place.device->api()),
      port_(place.port->port),
      mtu_bytes_(place.port->mtu_bytes),
      gid_(place.gid),
      timeout_(place.timeout),
      traffic_class_(place.traffic_class),
      service_level_(place.service_level),
      use_(use),
      memory_(static_cast<uint8_t*>(::operator new(kMemoryBytes, kAlignment)),
              [](uint8_t* memory) { ::operator delete(memory, kAlignment); }),
      places_(place.device->registrations(), use.is_receiver) {}

std::unique_ptr<QueuePair> QueuePair::make(const VerbsPlace& place, const Use& use,
                                           std::string* why) {
  std::unique_ptr<QueuePair> made(new QueuePair(place, use));
  if (!made->create(why)) return nullptr;
  for (uint32_t slot = 0; slot < kQueuePairSlots; ++slot) {
    if (made->post_receive(slot)) continue;
    *why = made->why_;
    return nullptr;
  }
  return made;
}

bool QueuePair::create(std::string* why) {
  mr_ = api_.reg_mr(device_.pd(), memory_.get(), kMemoryBytes, IBV_ACCESS_LOCAL_WRITE);
  if (mr_ == nullptr) {
    *why = "registering memory failed: " + memory_error_text(errno);
    return false;
  }
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = device_.completions();
  attr.qp_type = IBV_QPT_RC;
  attr.qp_context = this;
  attr.cap = {.max_send_wr = kSendRequests,
              .max_recv_wr = kQueuePairSlots,
              .max_send_sge = 2,
              .max_recv_sge = 1,
              .max_inline_data = kInlineBytes};
  qp_ = api_.create_qp(device_.pd(), &attr);
  if (qp_ == nullptr) {
    attr.cap.max_inline_data = 0;
    qp_ = api_.create_qp(device_.pd(), &attr);
  }
  if (qp_ == nullptr) {
    *why = "making a queue pair failed: " + memory_error_text(errno);
    return false;
  }
  // What the driver granted stands there now: hns clamps it, mlx5 rounds it up.
  inline_bytes_ = std::min(kInlineBytes, attr.cap.max_inline_data);
  number_ = device_.add(this, port_, kEntries);
  if (number_ == 0) *why = device_.name() + " has no room for completions of one more queue pair";
  if (number_ == 0) return false;
  const bool takes_writes = use_.is_receiver && (use_.modes & kModeWrite) != 0;
  const int code = to_init(api_, qp_, port_, takes_writes);
  if (code != 0) *why = failed("preparing a queue pair", code);
  return code == 0;
}

// In the error state the device has done with all that was posted; and it is not asked again once
// the queue pair is destroyed. Memory that a device does not let go is not used again.
QueuePair::~QueuePair() {
  bool is_released = true;
  if (qp_ != nullptr) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    api_.modify_qp(qp_, &attr, IBV_QP_STATE);  // a device that is gone has nothing to stop
    is_released = api_.destroy_qp(qp_) == 0;
  }
  // What it could write, no queue pair may write then.
  if (!is_released && use_.is_receiver) device_.registrations().withdraw_exposed();
  if (number_ != 0) device_.remove(number_, kEntries);
  if (mr_ != nullptr) is_released = api_.dereg_mr(mr_) == 0 || is_released;
  if (!is_released) (void)memory_.release();
}

QueuePairTerms QueuePair::terms() const {
  return {.number = qp_->qp_num,
          .first_psn = use_.first_psn,
          .gid = gid_.address,
          .mtu_bytes = mtu_bytes_,
          .slots = kQueuePairSlots,
          .slot_bytes = kQueuePairSlotBytes,
          .modes = use_.modes};
}

bool QueuePair::connect(const QueuePairTerms& peer, std::string* why) {
  peer_ = peer;
  peer_.slots = std::min(peer.slots, kQueuePairSlots);
  peer_.slot_bytes = std::min(peer.slot_bytes, kQueuePairSlotBytes);
  if ((peer.modes & use_.modes & kModeWrite) != 0) places_.begin();
  // A frame is posted whole.
  if (uint64_t{peer_.slots - kCreditSlots} * peer_.slot_bytes < kBlockBytes) {
    *why = "the peer's ring of receives is too small";
    return false;
  }
  ibv_qp_attr attr{};
  attr.path_mtu = mtu_of(std::min(mtu_bytes_, peer.mtu_bytes));
  attr.ah_attr.port_num = port_;
  attr.ah_attr.sl = service_level_;
  attr.ah_attr.grh.traffic_class = traffic_class_;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_.index);
  int code = to_receive(api_, qp_, attr, peer);
  if (code == 0) code = to_send(api_, qp_, use_.first_psn, timeout_);
  if (code != 0) *why = failed("connecting a queue pair", code) + " (" + path_text() + ")";
  return code == 0;
}

std::string QueuePair::path_text() const {
  return device_.name() + " " + address_text(gid_.address) + " > " + address_text(peer_.gid) +
         (places_.are_used() ? ", mode 2" : ", mode 1");
}

// Timers of devices are coarse: a quarter is added.
int64_t QueuePair::patience_ns() const {
  const int64_t tries_ns = (kRetries + 1) * (kTimeoutUnitNs << timeout_);
  return std::min(tries_ns + tries_ns / 4, kQueuePairStallNsMax);
}

void QueuePair::fail(const std::string& why) {
  if (why_.empty()) why_ = why;
}

void QueuePair::notify() {
  if (owner_ != nullptr) owner_->on_ready();
}

// ---- Sending ----

// A write takes no receive of the peer; the frame that follows it takes one.
bool QueuePair::has_room(const Chunk& chunk) const {
  const uint64_t written = places_.find(chunk) != nullptr ? chunk.header.bytes : 0;
  const uint64_t bytes = kFrameHeaderBytes + chunk.header.bytes - written;
  const uint64_t sends = (bytes + peer_.slot_bytes - 1) / peer_.slot_bytes;
  return is_proven() && !is_blocked() && free_sends() >= sends + kCreditSlots;
}

bool QueuePair::post(ibv_send_wr request, std::span<ibv_sge> pieces, const Memory* memory) {
  uint32_t bytes = 0;
  for (const ibv_sge& piece : pieces) bytes += piece.length;
  const bool is_send = request.opcode == IBV_WR_SEND;
  request.wr_id = uint64_t{number_} << 32 | (posted_.count() & kIndexMask);
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  if (is_send && bytes <= inline_bytes_) request.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  if (const int code = ibv_post_send(qp_, &request, &bad); code != 0) {
    fail(failed("posting a send", code));
    return false;
  }
  posted_.add(bytes, memory, is_send);
  sent_bytes_ += bytes;
  return true;
}

void QueuePair::probe() { (void)send_credit(); }

bool QueuePair::send_credit() {
  uint8_t* slot = send_slot();
  encode({.type = FrameType::kCredit, .message = returned_},
         std::span<uint8_t, kFrameHeaderBytes>(slot, kFrameHeaderBytes));
  told_ = returned_;
  ibv_sge piece = piece_of(slot, kFrameHeaderBytes, mr_);
  return post(send_request(true), {&piece, 1}, nullptr);
}

Io QueuePair::send_small(std::span<const uint8_t> bytes) {
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  return flush() == Io::kFailed ? Io::kFailed : Io::kOk;
}

Io QueuePair::flush() {
  if (has_failed()) return Io::kFailed;
  if (!is_proven_) return is_blocked() ? Io::kAgain : Io::kOk;
  if (is_credit_due() && free_sends() > 0 && !send_credit()) return Io::kFailed;
  while (!unsent_.empty() && free_sends() > kCreditSlots) {
    // Whole frames, so that a credit frame may follow.
    const size_t most = peer_.slot_bytes / kFrameHeaderBytes * kFrameHeaderBytes;
    const size_t bytes = std::min(unsent_.size(), most);
    uint8_t* slot = send_slot();
    std::copy_n(unsent_.begin(), bytes, slot);
    ibv_sge piece = piece_of(slot, bytes, mr_);
    if (!post(send_request(true), {&piece, 1}, nullptr)) return Io::kFailed;
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<ptrdiff_t>(bytes));
  }
  return is_blocked() ? Io::kAgain : Io::kOk;
}

// The last send of a frame is signalled: without one its memory would stay in use for as long as
// nothing follows.
Io QueuePair::send_chunk(const Chunk& chunk) {
  if (const Io before = flush(); before != Io::kOk) return before;
  if (!has_room(chunk)) return Io::kAgain;
  if (places_.find(chunk) != nullptr) return write_chunk(chunk);
  const bool is_large = chunk.memory != nullptr && chunk.header.bytes >= kZeroCopyBytesMin;
  const ibv_mr* mr = is_large ? device_.registrations().find(chunk.memory) : nullptr;
  size_t sent = 0;
  size_t header_bytes = kFrameHeaderBytes;
  do {
    uint8_t* slot = send_slot();
    if (header_bytes > 0) {
      encode(chunk.header, std::span<uint8_t, kFrameHeaderBytes>(slot, kFrameHeaderBytes));
    }
    const size_t bytes =
        std::min<size_t>(peer_.slot_bytes - header_bytes, chunk.header.bytes - sent);
    const uint8_t* data = chunk.data + sent;
    sent += bytes;
    const bool is_last = sent == chunk.header.bytes;
    std::array<ibv_sge, 2> pieces;
    size_t count = 0;
    if (mr != nullptr) {
      if (header_bytes > 0) pieces[count++] = piece_of(slot, header_bytes, mr_);
      pieces[count++] = piece_of(data, bytes, mr);
    } else {
      if (bytes > 0) std::memcpy(slot + header_bytes, data, bytes);
      copied_bytes_ += bytes;
      pieces[count++] = piece_of(slot, header_bytes + bytes, mr_);
    }
    const Memory* memory = mr != nullptr ? chunk.memory : nullptr;
    if (!post(send_request(is_last), std::span(pieces).first(count), memory)) return Io::kFailed;
    header_bytes = 0;
  } while (sent < chunk.header.bytes);
  return Io::kOk;
}

// ---- Writing ----

// A reliable connection executes requests in their order: what is written is there before the send
// that says so completes a receive.
Io QueuePair::write_chunk(const Chunk& chunk) {
  const FrameHeader& place = *places_.find(chunk);
  const ibv_mr* mr = device_.registrations().find(chunk.memory);
  ibv_sge payload = piece_of(chunk.data, chunk.header.bytes, mr);
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  write.wr.rdma.remote_addr = place.offset + chunk.header.offset;
  write.wr.rdma.rkey = place.bytes;
  if (!post(write, {&payload, 1}, chunk.memory)) return Io::kFailed;
  places_.note_written();
  FrameHeader written = chunk.header;
  written.type = FrameType::kWritten;
  uint8_t* slot = send_slot();
  encode(written, std::span<uint8_t, kFrameHeaderBytes>(slot, kFrameHeaderBytes));
  ibv_sge piece = piece_of(slot, kFrameHeaderBytes, mr_);
  return post(send_request(true), {&piece, 1}, nullptr) ? Io::kOk : Io::kFailed;
}

// ---- Completions ----

void QueuePair::on_completion(const ibv_wc& entry) {
  const bool is_receive = (entry.wr_id & kReceiveBit) != 0;
  const auto index = static_cast<uint32_t>(entry.wr_id) & kIndexMask;
  if (entry.status != IBV_WC_SUCCESS) {
    // The first one says why; the rest is flushed.
    const char* what = is_receive ? "a receive failed: " : "a send failed: ";
    return fail(what + std::string(api_.wc_status_str(entry.status)));
  }
  is_proven_ = true;
  if (is_receive) {
    received_.push_back({.data = slot(index % kQueuePairSlots),
                         .bytes = std::min<uint32_t>(entry.byte_len, kQueuePairSlotBytes),
                         .token = index % kQueuePairSlots});
    return;
  }
  // Sends end in order: with this one, all that were posted before.
  posted_.finish(index, kIndexMask);
}

// ---- Receiving ----

bool QueuePair::post_receive(uint32_t index) {
  ibv_sge piece = piece_of(slot(index), kQueuePairSlotBytes, mr_);
  ibv_recv_wr request{};
  request.wr_id = uint64_t{number_} << 32 | kReceiveBit | index;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int code = ibv_post_recv(qp_, &request, &bad);
  if (code != 0) fail(failed("posting a receive", code));
  return code == 0;
}

// What arrived before a failure is whole, and is taken first.
Io QueuePair::take_slices(std::span<lyre_slice> out, size_t* count) {
  *count = 0;
  while (*count < out.size() && !received_.empty()) {
    const lyre_slice slice = received_.front();
    received_.pop_front();
    if (slice.bytes > 0) {
      out[(*count)++] = slice;
    } else {
      give_back({&slice, 1});
    }
  }
  if (*count > 0) return Io::kOk;
  return has_failed() ? Io::kFailed : Io::kAgain;
}

void QueuePair::give_back(std::span<const lyre_slice> slices) {
  for (const lyre_slice& slice : slices) {
    if (has_failed() || !post_receive(slice.token)) return;
    ++returned_;
  }
  flush();  // a failure shows when it is read on
}

}  // namespace lyre::nccl_adapter
