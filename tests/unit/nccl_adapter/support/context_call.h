#pragma once

#include "nccl_adapter/plugin/contexts.h"
#include "nccl_adapter/plugin/instance_registry.h"

namespace lyre::nccl_adapter {

/// The use of a context of v11 as by a call of NCCL; nullptr: it has ended, or cannot be opened.
inline InstanceCall call_with(const void* context) {
  InstanceCall call;
  contexts().open(context, &call);
  return call;
}

}  // namespace lyre::nccl_adapter
