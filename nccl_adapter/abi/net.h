#pragma once

/// Every version of the network plugin ABI that Lyre speaks.
#include "nccl_adapter/abi/net_v10.h"
#include "nccl_adapter/abi/net_v11.h"
#include "nccl_adapter/abi/net_v12.h"
#include "nccl_adapter/abi/net_v8.h"
#include "nccl_adapter/abi/net_v9.h"
