#pragma once

#include <cstdint>
#include <string>

#include "lyre/lyre.h"
#include "nccl_adapter/abi/common.h"

/// The one place where errors of the client library become NCCL's.
namespace lyre::nccl_adapter {

/// kRemoteError for what the peer or the path did, kSystemError for the local machine's troubles,
/// kInternalError for what this library should not have done.
nccl_abi::Result to_result(int lyre_code);

/// "10.9.0.1:5000"
std::string to_string(const lyre_addr& address);

/// Nanoseconds of a clock that only goes forward.
int64_t now_ns();

/// This machine's name, for messages on the other side.
std::string host_name();

}  // namespace lyre::nccl_adapter
