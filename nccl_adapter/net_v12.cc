#include "nccl_adapter/abi/net_v12.h"

#include "nccl_adapter/net_context.h"

namespace abi = lyre::nccl_abi;

extern "C" __attribute__((visibility("default"))) const abi::NetV12 ncclNetPlugin_v12;

const abi::NetV12 ncclNetPlugin_v12 =
    lyre::nccl_adapter::context_table<abi::NetV12, abi::PropertiesV12>();
