#include "stack/io/dpdk/xdp_attachment.h"

#include <dlfcn.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

namespace lyre::io::dpdk {
namespace {

/// What libbpf's function attaches by netlink has no descriptor, and stays after a crash.
constexpr int kByNetlink = -1;

struct XdpAttachment {
  int interface_index;
  int link;  ///< a descriptor, or kByNetlink
};

/// Never destroyed: ports may be closed while the process ends.
std::vector<XdpAttachment>& attachments() {
  static auto* const all = new std::vector<XdpAttachment>;
  return *all;
}

/// -1, and errno, for an error.
int bpf_call(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

/// A process that was forked meanwhile has the descriptor, too: the kernel is told to detach, which
/// it does since 5.11.
void end_link(int link) {
  bpf_attr attributes = {};
  attributes.link_detach.link_fd = static_cast<uint32_t>(link);
  static_cast<void>(bpf_call(BPF_LINK_DETACH, attributes));
  ::close(link);
}

/// Removes the entry of an interface and returns it.
std::optional<XdpAttachment> take(int interface_index) {
  auto& all = attachments();
  const auto found = std::find_if(all.begin(), all.end(), [interface_index](const auto& each) {
    return each.interface_index == interface_index;
  });
  if (found == all.end()) return std::nullopt;
  const XdpAttachment taken = *found;
  all.erase(found);
  return taken;
}

/// An entry of before is of an interface that is gone: the kernel attached another program.
void keep(int interface_index, int link) {
  const auto before = take(interface_index);
  if (before && before->link != kByNetlink) end_link(before->link);
  attachments().push_back({interface_index, link});
}

/// libbpf's own function: DPDK has loaded the library for its driver alone, so dlsym(RTLD_NEXT)
/// does not find it. Null: it is not loaded.
template <typename Function>
Function* function_of_libbpf(const char* name) {
  for (const char* library : {"libbpf.so.1", "libbpf.so.0"}) {
    void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (loaded != nullptr) return reinterpret_cast<Function*>(dlsym(loaded, name));
  }
  return nullptr;
}

int attach_by_netlink(int interface_index, int program, uint32_t flags,
                      const bpf_xdp_attach_opts* options) {
  auto* const real = function_of_libbpf<decltype(bpf_xdp_attach)>("bpf_xdp_attach");
  const int rc = real == nullptr ? -ENOSYS : real(interface_index, program, flags, options);
  if (rc != 0) return rc;
  if (program >= 0) {
    keep(interface_index, kByNetlink);
  } else {
    take(interface_index);
  }
  return 0;
}

/// Returns the link, or a negative errno. The kernel refuses any other flag for a link, and
/// attaches none to an interface that has a program.
int make_link(int interface_index, int program, uint32_t flags) {
  bpf_attr attributes = {};
  attributes.link_create.prog_fd = static_cast<uint32_t>(program);
  attributes.link_create.target_ifindex = static_cast<uint32_t>(interface_index);
  attributes.link_create.attach_type = BPF_XDP;
  attributes.link_create.flags = flags & XDP_FLAGS_MODES;
  const int link = bpf_call(BPF_LINK_CREATE, attributes);
  return link < 0 ? -errno : link;
}

}  // namespace
}  // namespace lyre::io::dpdk

namespace dpdk = lyre::io::dpdk;

/// With options the caller (libxdp) replaces one program by another, and removes it by a program of
/// -1: a link can do neither.
extern "C" int bpf_xdp_attach(int interface_index, int program, uint32_t flags,
                              const bpf_xdp_attach_opts* options) {
  if (options != nullptr || program < 0) {
    return dpdk::attach_by_netlink(interface_index, program, flags, options);
  }
  const int link = dpdk::make_link(interface_index, program, flags);
  const bool has_no_links = link == -EINVAL || link == -EOPNOTSUPP;  // before 5.9
  if (has_no_links) return dpdk::attach_by_netlink(interface_index, program, flags, options);
  if (link < 0) return link;
  dpdk::keep(interface_index, link);
  return 0;
}

extern "C" int bpf_xdp_detach(int interface_index, uint32_t flags,
                              const bpf_xdp_attach_opts* options) {
  const auto attached = dpdk::take(interface_index);
  if (!attached) return 0;
  if (attached->link == dpdk::kByNetlink) {
    auto* const real = dpdk::function_of_libbpf<decltype(bpf_xdp_detach)>("bpf_xdp_detach");
    return real == nullptr ? -ENOSYS : real(interface_index, flags, options);
  }
  dpdk::end_link(attached->link);
  return 0;
}
