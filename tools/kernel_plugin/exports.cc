#include <cstring>

#include "nccl_adapter/abi/net.h"
#include "tools/kernel_plugin/comm.h"
#include "tools/kernel_plugin/rendezvous.h"
#include "tools/kernel_plugin/settings.h"

/// The exported tables: functions with the arguments of v12, and overloads for the versions that
/// differ.
namespace lyre::kernel_plugin {
namespace {

using namespace lyre::nccl_abi;

constexpr int kSpeedMbps = 10'000;  // NCCL's own value for an unknown speed
constexpr int kCommsMax = 65'536;

struct Registration {
  Comm* comm;
};

Result init_common(Logger logger) {
  set_logger(logger);
  Settings settings;
  return read_settings(&settings) ? Result::kSuccess : Result::kInvalidUsage;
}

Result post(Direction direction, void* comm, void* data, size_t bytes, void** request) {
  Request* posted = nullptr;
  const Result result = static_cast<Comm*>(comm)->post(direction, data, bytes, &posted);
  *request = posted;
  return result;
}

template <typename Size>
Result irecv_common(void* comm, int n, void** data, Size* sizes, void** request) {
  *request = nullptr;
  if (n != 1 || sizes[0] < Size{0}) return Result::kInvalidArgument;
  return post(Direction::kReceive, comm, data[0], static_cast<size_t>(sizes[0]), request);
}

struct Plugin {
  static constexpr const char* kName = "Kernel";
  static constexpr Result (*set_net_attr)(void*, NetAttr*) = nullptr;

  static Result init(Logger logger) { return init_common(logger); }
  static Result init(Logger logger, ProfilerCallback) { return init_common(logger); }
  static Result init(void** context, uint64_t, CommConfig*, Logger logger, ProfilerCallback) {
    *context = nullptr;
    return init_common(logger);
  }

  static Result devices(int* ndev) {
    *ndev = 1;
    return Result::kSuccess;
  }

  template <typename Properties>
  static Result get_properties(int dev, Properties* props) {
    if (dev != 0) return Result::kInvalidArgument;
    *props = Properties{};
    props->name = "kernel0";
    props->ptr_support = kPtrHost;
    props->speed_mbps = kSpeedMbps;
    props->comms_max = kCommsMax;
    props->recvs_max = 1;
    props->device_type = NetDeviceType::kHost;
    if constexpr (requires { props->vprops; }) {
      props->vprops.ndevs = 1;
      props->p2p_bytes_max = kNetBytesMax;
      props->coll_bytes_max = kNetBytesMax;
    }
    if constexpr (requires { props->rail_id; }) {
      props->rail_id = kNetIdUndefined;
      props->plane_id = kNetIdUndefined;
    }
    return Result::kSuccess;
  }

  static Result listen(int, void* handle, void** listen_comm) {
    *listen_comm = nullptr;
    Settings settings;
    if (!read_settings(&settings)) return Result::kInvalidUsage;
    auto listener = Listener::make(settings, static_cast<Handle*>(handle));
    if (listener == nullptr) return Result::kSystemError;
    *listen_comm = listener.release();
    return Result::kSuccess;
  }
  static Result listen(void*, int dev, void* handle, void** listen_comm) {
    return listen(dev, handle, listen_comm);
  }

  static Result connect(int, void* handle, void** send_comm, NetDeviceHandle**) {
    Comm* comm = nullptr;
    const Result result = connect_to(static_cast<Handle*>(handle), &comm);
    *send_comm = comm;
    return result;
  }
  static Result connect(int dev, CommConfig*, void* handle, void** send_comm,
                        NetDeviceHandle** device) {
    return connect(dev, handle, send_comm, device);
  }
  static Result connect(void*, int dev, void* handle, void** send_comm, NetDeviceHandle** device) {
    return connect(dev, handle, send_comm, device);
  }

  static Result accept(void* listen_comm, void** recv_comm, NetDeviceHandle**) {
    Comm* comm = nullptr;
    const Result result = static_cast<Listener*>(listen_comm)->accept(&comm);
    *recv_comm = comm;
    return result;
  }

  static Result reg_mr(void* comm, void*, size_t, int type, void** mhandle) {
    *mhandle = nullptr;
    if (type != kPtrHost) return Result::kInvalidUsage;
    *mhandle = new Registration{static_cast<Comm*>(comm)};
    return Result::kSuccess;
  }

  static Result dereg_mr(void*, void* mhandle) {
    auto* registration = static_cast<Registration*>(mhandle);
    if (registration == nullptr) return Result::kSuccess;
    registration->comm->quiesce();
    delete registration;
    return Result::kSuccess;
  }

  static Result isend(void* comm, void* data, int bytes, int, void*, void** request) {
    *request = nullptr;
    if (bytes < 0) return Result::kInvalidArgument;
    return post(Direction::kSend, comm, data, static_cast<size_t>(bytes), request);
  }
  static Result isend(void* comm, void* data, size_t bytes, int, void*, void** request) {
    return post(Direction::kSend, comm, data, bytes, request);
  }
  static Result isend(void* comm, void* data, size_t bytes, int, void*, void*, void** request) {
    return post(Direction::kSend, comm, data, bytes, request);
  }

  static Result irecv(void* comm, int n, void** data, int* sizes, int*, void**, void** request) {
    return irecv_common(comm, n, data, sizes, request);
  }
  static Result irecv(void* comm, int n, void** data, size_t* sizes, int*, void**, void** request) {
    return irecv_common(comm, n, data, sizes, request);
  }
  static Result irecv(void* comm, int n, void** data, size_t* sizes, int*, void**, void**,
                      void** request) {
    return irecv_common(comm, n, data, sizes, request);
  }

  // NCCL calls it only for receives into GPU memory, which regMr refuses.
  static Result iflush(void*, int, void**, int*, void**, void**) { return Result::kInternalError; }

  static Result test(void* request, int* done, int* sizes) {
    auto* posted = static_cast<Request*>(request);
    return posted->comm->test(posted, done, sizes);
  }

  static Result close_comm(void* comm) {
    delete static_cast<Comm*>(comm);
    return Result::kSuccess;
  }

  static Result close_listen(void* listen_comm) {
    delete static_cast<Listener*>(listen_comm);
    return Result::kSuccess;
  }

  static Result finalize(void*) { return Result::kSuccess; }
};

}  // namespace
}  // namespace lyre::kernel_plugin

LYRE_EXPORT_NET_TABLE(8, lyre::kernel_plugin::Plugin);
LYRE_EXPORT_NET_TABLE(9, lyre::kernel_plugin::Plugin);
LYRE_EXPORT_NET_TABLE(10, lyre::kernel_plugin::Plugin);
LYRE_EXPORT_NET_TABLE(11, lyre::kernel_plugin::Plugin);
LYRE_EXPORT_NET_TABLE(12, lyre::kernel_plugin::Plugin);
