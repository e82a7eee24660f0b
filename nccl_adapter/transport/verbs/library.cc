#include "nccl_adapter/transport/verbs/library.h"

#include <dlfcn.h>

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
  find(library, "ibv_open_device", &api.open_device, &loaded.why);
  find(library, "ibv_close_device", &api.close_device, &loaded.why);
  find(library, "ibv_query_device", &api.query_device, &loaded.why);
  find(library, "ibv_query_port", &api.query_port, &loaded.why);
  find(library, "_ibv_query_gid_ex", &api.query_gid_ex, &loaded.why);
  return loaded;
}

}  // namespace

const VerbsApi* load_verbs(std::string* why) {
  static const Loaded& loaded = *new Loaded(load());
  *why = loaded.why;
  return loaded.why.empty() ? &loaded.api : nullptr;
}

}  // namespace lyre::nccl_adapter
