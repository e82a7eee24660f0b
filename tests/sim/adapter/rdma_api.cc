#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "tests/sim/adapter/rdma.h"
#include "tests/sim/adapter/rdma_objects.h"

// The functions of libibverbs, over the network that a world has set.
namespace lyre::adapter_sim {
namespace {

RdmaNetwork* g_rdma = nullptr;

RdmaContext* of(ibv_context* context) { return reinterpret_cast<RdmaContext*>(context); }
RdmaQueuePair* of(ibv_qp* qp) { return reinterpret_cast<RdmaQueuePair*>(qp); }
RdmaCompletions* of(ibv_cq* cq) { return reinterpret_cast<RdmaCompletions*>(cq); }

int poll(ibv_cq* cq, int count, ibv_wc* out) {
  auto& entries = of(cq)->entries;
  int taken = 0;
  while (taken < count && !entries.empty() && entries.front().at_ns <= g_rdma->now_ns()) {
    out[taken++] = entries.front().wc;
    entries.pop_front();
  }
  return taken;
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  *bad = request;
  return g_rdma->post_send(of(qp), *request);
}

int post_receive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  *bad = request;
  return g_rdma->post_receive(of(qp), *request);
}

ibv_device** list_devices(int* count) {
  auto** list = new ibv_device* [g_rdma->devices().size() + 1] {};
  *count = 0;
  for (const auto& device : g_rdma->devices()) {
    if (device->host == g_rdma->host_of_caller() && device->is_there) {
      list[(*count)++] = &device->device;
    }
  }
  return list;
}

ibv_context* open_device(ibv_device* device) {
  auto* found = reinterpret_cast<RdmaDevice*>(device);
  RdmaContext* opened = g_rdma->open(found);
  opened->context.device = device;
  opened->context.ops.poll_cq = poll;
  opened->context.ops.post_send = post_send;
  opened->context.ops.post_recv = post_receive;
  return &opened->context;
}

int close_device(ibv_context* context) { return g_rdma->close(of(context)), 0; }

int query_device(ibv_context*, ibv_device_attr* out) {
  *out = {};
  out->phys_port_cnt = 1;
  out->max_qp_wr = 64;
  out->max_sge = 2;
  out->max_cqe = 1024;
  return 0;
}

int query_port(ibv_context* context, uint8_t, _compat_ibv_port_attr* out) {
  ibv_port_attr attr{};
  attr.state = of(context)->device->is_link_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.active_mtu = IBV_MTU_1024;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.gid_tbl_len = 2;
  // The library's function knows no field behind link_layer.
  std::memcpy(out, &attr, offsetof(ibv_port_attr, flags));
  return 0;
}

int query_gid(ibv_context* context, uint32_t, uint32_t index, ibv_gid_entry* out, uint32_t,
              size_t) {
  if (index != 1) return ENODATA;  // a hole
  std::memcpy(out->gid.raw, of(context)->device->gid, sizeof out->gid.raw);
  out->gid_type = IBV_GID_TYPE_ROCE_V2;
  return 0;
}

ibv_pd* alloc_pd(ibv_context* context) {
  if (of(context)->is_gone) return nullptr;
  ++of(context)->objects;
  auto* pd = new ibv_pd{};
  pd->context = context;
  return pd;
}

int dealloc_pd(ibv_pd* pd) {
  --of(pd->context)->objects;
  delete pd;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* data, size_t bytes, int access) {
  static uint32_t last_key = 0;
  if (of(pd->context)->is_gone) return nullptr;
  auto made = std::make_unique<RdmaMemory>();
  made->access = access;
  made->mr.context = pd->context;
  made->mr.addr = data;
  made->mr.length = bytes;
  made->mr.lkey = ++last_key;
  made->mr.rkey = ++last_key;
  of(pd->context)->mrs.push_back(std::move(made));
  return &of(pd->context)->mrs.back()->mr;
}

int dereg_mr(ibv_mr* mr) {
  g_rdma->check_unused(mr);
  std::erase_if(of(mr->context)->mrs, [&](const auto& own) { return &own->mr == mr; });
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
  if (of(context)->is_gone) return nullptr;
  ++of(context)->objects;
  auto* made = new RdmaCompletions;
  made->cq.context = context;
  made->capacity = static_cast<size_t>(entries);
  return &made->cq;
}

int destroy_cq(ibv_cq* cq) {
  g_rdma->check_unused(cq);
  --of(cq->context)->objects;
  delete of(cq);
  return 0;
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (of(pd->context)->is_gone) return nullptr;
  RdmaQueuePair* made = g_rdma->create(of(pd->context), *attr);
  made->qp.context = pd->context;
  made->qp.pd = pd;
  attr->cap = made->cap;
  return &made->qp;
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return g_rdma->modify(of(qp), *attr, mask);
}

int destroy_qp(ibv_qp* qp) { return g_rdma->destroy(of(qp)), 0; }

int get_async_event(ibv_context* context, ibv_async_event* out) {
  auto& events = of(context)->events;
  if (events.empty()) return -1;
  *out = events.front();
  events.pop_front();
  return 0;
}

constexpr nccl_adapter::VerbsApi kApi = {
    .get_device_list = list_devices,
    .free_device_list = [](ibv_device** list) { delete[] list; },
    .get_device_name = [](ibv_device* device) { return static_cast<const char*>(device->name); },
    .open_device = open_device,
    .close_device = close_device,
    .query_device = query_device,
    .query_port = query_port,
    .query_gid_ex = query_gid,
    .alloc_pd = alloc_pd,
    .dealloc_pd = dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = dereg_mr,
    .reg_dmabuf_mr = nullptr,
    .create_cq = create_cq,
    .destroy_cq = destroy_cq,
    .create_qp = create_qp,
    .modify_qp = modify_qp,
    .destroy_qp = destroy_qp,
    .get_async_event = get_async_event,
    .ack_async_event = [](ibv_async_event*) {},
    .is_there =
        [](ibv_device* device) { return !reinterpret_cast<RdmaDevice*>(device)->is_deleted; },
    .wc_status_str = [](ibv_wc_status) { return "it broke"; }};

}  // namespace

void set_rdma(RdmaNetwork* network) { g_rdma = network; }
RdmaNetwork* rdma() { return g_rdma; }
const nccl_adapter::VerbsApi& rdma_api() { return kApi; }

}  // namespace lyre::adapter_sim
