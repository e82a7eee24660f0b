#include "nccl_adapter/abi/net_v11.h"

#include "nccl_adapter/net_context.h"

namespace abi = lyre::nccl_abi;

extern "C" __attribute__((visibility("default"))) const abi::NetV11 ncclNetPlugin_v11;

const abi::NetV11 ncclNetPlugin_v11 =
    lyre::nccl_adapter::context_table<abi::NetV11, abi::PropertiesV11>();
