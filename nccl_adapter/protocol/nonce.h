#pragma once

#include "nccl_adapter/protocol/handle.h"

namespace lyre::nccl_adapter {

/// 128 bits that nobody can guess, from the kernel.
Nonce make_nonce();

}  // namespace lyre::nccl_adapter
