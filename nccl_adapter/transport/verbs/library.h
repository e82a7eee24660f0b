#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

/// libibverbs of rdma-core, opened at run time: a host without it has no queue pairs and needs no
/// package.
namespace lyre::nccl_adapter {

/// The functions of libibverbs that the plugin calls, as its header declares them. Tests fill it
/// otherwise. What posts and polls (ibv_post_send() and its like) is inline in that header, and
/// calls the operations of the context.
struct VerbsApi {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  /// The context's descriptor of events does not block.
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* out);
  /// Fills a prefix of ibv_port_attr: what is behind it is the caller's.
  int (*query_port)(ibv_context* context, uint8_t port, _compat_ibv_port_attr* out);
  int (*query_gid_ex)(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* out,
                      uint32_t flags, size_t entry_bytes);
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* data, size_t bytes, int access);
  int (*dereg_mr)(ibv_mr* mr);
  /// nullptr: the library has none (before rdma-core 34).
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address,
                           int descriptor, int access);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                       int vector);
  int (*destroy_cq)(ibv_cq* cq);
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask);
  int (*destroy_qp)(ibv_qp* qp);
  int (*get_async_event)(ibv_context* context, ibv_async_event* out);
  void (*ack_async_event)(ibv_async_event* event);
  /// False when the kernel takes the device away: it may wait for those who have it open, and the
  /// device works until then.
  bool (*is_there)(ibv_device* device);
  const char* (*wc_status_str)(ibv_wc_status status);
};

/// The same table at each call; the library stays loaded. nullptr, and `*why` says so, where the
/// library or one of its functions is missing (rdma-core before 2020 lacks query_gid_ex).
/// Thread: any.
const VerbsApi* load_verbs(std::string* why);

}  // namespace lyre::nccl_adapter
