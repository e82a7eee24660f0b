#include "nccl_adapter/transport/verbs/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace lyre::nccl_adapter {
namespace {

struct Loaded {
  VerbsApi api{};
  std::string why;  ///< empty: the table is complete
};

template <typename Function>
void find(void* library, const char* name, Function* out, std::string* why) {
  *out = reinterpret_cast<Function>(::dlsym(library, name));
  if (*out == nullptr && why->empty()) *why = std::string("libibverbs.so.1 has no ") + name;
}

decltype(VerbsApi::open_device) g_open_device;
decltype(VerbsApi::close_device) g_close_device;

ibv_context* open_without_blocking(ibv_device* device) {
  ibv_context* context = g_open_device(device);
  if (context == nullptr || ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0) return context;
  g_close_device(context);
  return nullptr;
}

// The first that the kernel removes.
bool is_there(ibv_device* device) { return ::access(device->dev_path, F_OK) == 0; }

Loaded load() {
  Loaded loaded;
  void* library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.why = ::dlerror();
    return loaded;
  }
  VerbsApi& api = loaded.api;
  find(library, "ibv_get_device_list", &api.get_device_list, &loaded.why);
  find(library, "ibv_free_device_list", &api.free_device_list, &loaded.why);
  find(library, "ibv_get_device_name", &api.get_device_name, &loaded.why);
  find(library, "ibv_open_device", &g_open_device, &loaded.why);
  find(library, "ibv_close_device", &api.close_device, &loaded.why);
  g_close_device = api.close_device;
  api.open_device = open_without_blocking;
  api.is_there = is_there;
  find(library, "ibv_query_device", &api.query_device, &loaded.why);
  find(library, "ibv_query_port", &api.query_port, &loaded.why);
  find(library, "_ibv_query_gid_ex", &api.query_gid_ex, &loaded.why);
  find(library, "ibv_alloc_pd", &api.alloc_pd, &loaded.why);
  find(library, "ibv_dealloc_pd", &api.dealloc_pd, &loaded.why);
  find(library, "ibv_reg_mr", &api.reg_mr, &loaded.why);
  find(library, "ibv_dereg_mr", &api.dereg_mr, &loaded.why);
  std::string ignored;
  find(library, "ibv_reg_dmabuf_mr", &api.reg_dmabuf_mr, &ignored);
  find(library, "ibv_create_cq", &api.create_cq, &loaded.why);
  find(library, "ibv_destroy_cq", &api.destroy_cq, &loaded.why);
  find(library, "ibv_create_qp", &api.create_qp, &loaded.why);
  find(library, "ibv_modify_qp", &api.modify_qp, &loaded.why);
  find(library, "ibv_destroy_qp", &api.destroy_qp, &loaded.why);
  find(library, "ibv_get_async_event", &api.get_async_event, &loaded.why);
  find(library, "ibv_ack_async_event", &api.ack_async_event, &loaded.why);
  find(library, "ibv_wc_status_str", &api.wc_status_str, &loaded.why);
  return loaded;
}

}  // namespace

const VerbsApi* load_verbs(std::string* why) {
  static const Loaded& loaded = *new Loaded(load());
  *why = loaded.why;
  return loaded.why.empty() ? &loaded.api : nullptr;
}

}  // namespace lyre::nccl_adapter
