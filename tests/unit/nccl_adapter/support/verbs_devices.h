#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/transport/verbs/library.h"

/// A libibverbs whose devices a test describes.
namespace lyre::nccl_adapter {

struct FakeGid {
  Address address;
  uint32_t type = IBV_GID_TYPE_ROCE_V2;
};

/// One device of the fake library. Its fields are what its functions answer.
struct FakeDevice {
  ibv_device device{};
  ibv_context context{};
  ibv_device_attr attr{};
  ibv_port_attr port{};
  std::vector<std::optional<FakeGid>> gids;  ///< no value: a hole
  bool opens = true;
  int query_device_code = 0;
  int query_port_code = 0;
  int opened = 0;  ///< more often than closed
  ibv_pd pd{};
  int domains = 0;              ///< made, and not given back
  int dma_buf_errno = ENOTSUP;  ///< what it says of a dma-buf that is none

  explicit FakeDevice(const char* name) {
    std::strcpy(device.name, name);
    device.transport_type = IBV_TRANSPORT_IB;
    context.device = &device;
    pd.context = &context;
    attr.phys_port_cnt = 1;
    attr.max_qp_wr = 8192;
    attr.max_sge = 6;
    attr.max_cqe = 1 << 20;
    port.state = IBV_PORT_ACTIVE;
    port.active_mtu = IBV_MTU_1024;
    port.link_layer = IBV_LINK_LAYER_ETHERNET;
    port.active_speed = 32;
    port.active_width = 2;
  }
};

inline std::vector<std::unique_ptr<FakeDevice>>& fake_devices() {
  static std::vector<std::unique_ptr<FakeDevice>> devices;
  return devices;
}

inline FakeDevice& fake_of(const ibv_device* device) {
  for (const auto& fake : fake_devices()) {
    if (&fake->device == device) return *fake;
  }
  ADD_FAILURE() << "no such device";
  return *fake_devices().front();
}

inline constexpr VerbsApi kFakeApi = {
    .get_device_list =
        [](int* count) {
          *count = static_cast<int>(fake_devices().size());
          auto** list = new ibv_device* [fake_devices().size() + 1] {};
          for (size_t i = 0; i < fake_devices().size(); ++i) list[i] = &fake_devices()[i]->device;
          return list;
        },
    .free_device_list = [](ibv_device** list) { delete[] list; },
    .get_device_name = [](ibv_device* device) { return static_cast<const char*>(device->name); },
    .open_device = [](ibv_device* device) -> ibv_context* {
      FakeDevice& fake = fake_of(device);
      errno = EPERM;
      if (!fake.opens) return nullptr;
      ++fake.opened;
      return &fake.context;
    },
    .close_device = [](ibv_context* context) { return --fake_of(context->device).opened, 0; },
    .query_device =
        [](ibv_context* context, ibv_device_attr* out) {
          *out = fake_of(context->device).attr;
          return fake_of(context->device).query_device_code;
        },
    .query_port =
        [](ibv_context* context, uint8_t, _compat_ibv_port_attr* out) {
          // The library's function knows no field behind link_layer.
          std::memcpy(out, &fake_of(context->device).port, offsetof(ibv_port_attr, flags));
          return fake_of(context->device).query_port_code;
        },
    .query_gid_ex =
        [](ibv_context* context, uint32_t, uint32_t index, ibv_gid_entry* out, uint32_t, size_t) {
          const auto& gid = fake_of(context->device).gids[index];
          if (!gid) return ENODATA;
          std::memcpy(out->gid.raw, gid->address.data(), gid->address.size());
          out->gid_index = index;
          out->gid_type = gid->type;
          return 0;
        },
    .alloc_pd =
        [](ibv_context* context) {
          ++fake_of(context->device).domains;
          return &fake_of(context->device).pd;
        },
    .dealloc_pd = [](ibv_pd* pd) { return --fake_of(pd->context->device).domains, 0; },
    .reg_dmabuf_mr = [](ibv_pd* pd, uint64_t, size_t, uint64_t, int descriptor, int) -> ibv_mr* {
      EXPECT_EQ(descriptor, -1);
      errno = fake_of(pd->context->device).dma_buf_errno;
      return nullptr;
    }};

inline Address v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}
inline Address v6(uint8_t first, uint8_t second, uint8_t last) {
  Address address{};
  address[0] = first;
  address[1] = second;
  address[15] = last;
  return address;
}

/// No device at first; none may be left open.
class DescribedDevices : public ::testing::Test {
 protected:
  ~DescribedDevices() override {
    for (const auto& fake : fake_devices()) {
      EXPECT_EQ(fake->opened, 0) << "it was not closed";
      EXPECT_EQ(fake->domains, 0) << "a protection domain is left";
    }
    fake_devices().clear();
  }
  static FakeDevice& add(const char* name, std::vector<std::optional<FakeGid>> gids) {
    fake_devices().push_back(std::make_unique<FakeDevice>(name));
    FakeDevice& fake = *fake_devices().back();
    fake.port.gid_tbl_len = static_cast<int>(gids.size());
    fake.gids = std::move(gids);
    return fake;
  }
};

}  // namespace lyre::nccl_adapter
