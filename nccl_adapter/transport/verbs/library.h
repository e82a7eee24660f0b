#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

/// libibverbs of rdma-core, opened at run time: a host without it has no queue pairs and needs no
/// package.
namespace lyre::nccl_adapter {

/// The functions of libibverbs that the plugin calls, as its header declares them. Tests fill it
/// otherwise.
struct VerbsApi {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* out);
  /// Fills a prefix of ibv_port_attr: what is behind it is the caller's.
  int (*query_port)(ibv_context* context, uint8_t port, _compat_ibv_port_attr* out);
  int (*query_gid_ex)(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* out,
                      uint32_t flags, size_t entry_bytes);
};

/// The same table at each call; the library stays loaded. nullptr, and `*why` says so, where the
/// library or one of its functions is missing (rdma-core before 2020 lacks query_gid_ex).
/// Thread: any.
const VerbsApi* load_verbs(std::string* why);

}  // namespace lyre::nccl_adapter
