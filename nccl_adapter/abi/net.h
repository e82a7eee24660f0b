#pragma once

#include "nccl_adapter/abi/properties.h"

/// Every version of the network plugin ABI that Lyre speaks.
namespace lyre::nccl_abi {

/// What of ncclNet_v8_t (NCCL 2.20 to 2.23) later versions changed.
struct SignaturesV8 {
  using Properties = PropertiesV8;
  using Init = Result(Logger logger);
  using Listen = Result(int dev, void* handle, void** listen_comm);
  using Connect = Result(int dev, void* handle, void** send_comm, NetDeviceHandle** send_dev_comm);
  using Isend = Result(void* send_comm, void* data, int size, int tag, void* mhandle,
                       void** request);
  using Irecv = Result(void* recv_comm, int n, void** data, int* sizes, int* tags, void** mhandles,
                       void** request);
};

/// v9 (NCCL 2.24 and 2.25): sizes became size_t.
struct SignaturesV9 : SignaturesV8 {
  using Properties = PropertiesV9;
  using Isend = Result(void* send_comm, void* data, size_t size, int tag, void* mhandle,
                       void** request);
  using Irecv = Result(void* recv_comm, int n, void** data, size_t* sizes, int* tags,
                       void** mhandles, void** request);
};

/// v10 (NCCL 2.26 and 2.27): profiler callback in init, profiler handles in isend and irecv,
/// traffic class in connect.
struct SignaturesV10 : SignaturesV9 {
  using Init = Result(Logger logger, ProfilerCallback profiler);
  using Connect = Result(int dev, CommConfig* config, void* handle, void** send_comm,
                         NetDeviceHandle** send_dev_comm);
  using Isend = Result(void* send_comm, void* data, size_t size, int tag, void* mhandle,
                       void* phandle, void** request);
  using Irecv = Result(void* recv_comm, int n, void** data, size_t* sizes, int* tags,
                       void** mhandles, void** phandles, void** request);
};

/// v11 (NCCL 2.28 and 2.29): one context a communicator.
struct SignaturesV11 : SignaturesV10 {
  using Properties = PropertiesV11;
  using Init = Result(void** context, uint64_t comm_id, CommConfig* config, Logger logger,
                      ProfilerCallback profiler);
  using Listen = Result(void* context, int dev, void* handle, void** listen_comm);
  using Connect = Result(void* context, int dev, void* handle, void** send_comm,
                         NetDeviceHandle** send_dev_comm);
};

/// v12 (NCCL 2.30): eight devices a NIC.
struct SignaturesV12 : SignaturesV11 {
  using Properties = PropertiesV12;
};

/// The table, as far as every version has it. Null where a plugin has nothing to offer:
/// reg_mr_dma_buf, get_device_mr, irecv_consumed and, later, make_vdevice and set_net_attr.
template <typename Signatures>
struct NetTable {
  using Properties = typename Signatures::Properties;

  const char* name;
  typename Signatures::Init* init;
  Result (*devices)(int* ndev);
  Result (*get_properties)(int dev, Properties* props);
  typename Signatures::Listen* listen;
  typename Signatures::Connect* connect;
  Result (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** recv_dev_comm);
  Result (*reg_mr)(void* comm, void* data, size_t size, int type, void** mhandle);
  Result (*reg_mr_dma_buf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                           void** mhandle);
  Result (*dereg_mr)(void* comm, void* mhandle);
  typename Signatures::Isend* isend;
  typename Signatures::Irecv* irecv;
  Result (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles,
                   void** request);
  Result (*test)(void* request, int* done, int* sizes);
  Result (*close_send)(void* send_comm);
  Result (*close_recv)(void* recv_comm);
  Result (*close_listen)(void* listen_comm);
  Result (*get_device_mr)(void* comm, void* mhandle, void** device_mhandle);
  Result (*irecv_consumed)(void* recv_comm, int n, void* request);
};
static_assert(offsetof(NetTable<SignaturesV8>, isend) == 80);
static_assert(offsetof(NetTable<SignaturesV8>, test) == 104);
static_assert(offsetof(NetTable<SignaturesV8>, irecv_consumed) == 144);

template <typename Signatures>
struct NetTableWithVDevice : NetTable<Signatures> {
  Result (*make_vdevice)(int* dev, decltype(Signatures::Properties::vprops)* props);
};

template <typename Signatures>
struct NetTableWithContext : NetTableWithVDevice<Signatures> {
  Result (*finalize)(void* context);  // never null
  Result (*set_net_attr)(void* context, NetAttr* attr);
};

/// ncclNet_v<N>_t, exported as ncclNetPlugin_v<N>.
using NetV8 = NetTable<SignaturesV8>;
using NetV9 = NetTableWithVDevice<SignaturesV9>;
using NetV10 = NetTableWithVDevice<SignaturesV10>;
using NetV11 = NetTableWithContext<SignaturesV11>;
using NetV12 = NetTableWithContext<SignaturesV12>;
static_assert(sizeof(NetV8) == 152);
static_assert(sizeof(NetV9) == 160 && sizeof(NetV10) == 160);
static_assert(sizeof(NetV11) == 176 && sizeof(NetV12) == 176);

/// The table of a plugin whose calls are static functions of `Plugin`, named as the members are.
/// Where a signature changed, `Plugin` has an overload for each: a table takes the one that fits.
template <typename Table, typename Plugin>
constexpr Table make_table() {
  Table table{};
  table.name = Plugin::kName;
  table.init = Plugin::init;
  table.devices = Plugin::devices;
  table.get_properties = Plugin::template get_properties<typename Table::Properties>;
  table.listen = Plugin::listen;
  table.connect = Plugin::connect;
  table.accept = Plugin::accept;
  table.reg_mr = Plugin::reg_mr;
  table.dereg_mr = Plugin::dereg_mr;
  table.isend = Plugin::isend;
  table.irecv = Plugin::irecv;
  table.iflush = Plugin::iflush;
  table.test = Plugin::test;
  table.close_send = table.close_recv = Plugin::close_comm;
  table.close_listen = Plugin::close_listen;
  if constexpr (requires { table.finalize; }) {
    table.finalize = Plugin::finalize;
    table.set_net_attr = Plugin::set_net_attr;
  }
  return table;
}

}  // namespace lyre::nccl_abi

/// Exports a plugin's table of one version, as NCCL looks for it. Outside of any namespace.
#define LYRE_EXPORT_NET_TABLE(version, Plugin)                   \
  extern "C" __attribute__((visibility("default")))              \
  const lyre::nccl_abi::NetV##version ncclNetPlugin_v##version;  \
  const lyre::nccl_abi::NetV##version ncclNetPlugin_v##version = \
      lyre::nccl_abi::make_table<lyre::nccl_abi::NetV##version, Plugin>()
