#pragma once

#include "nccl_adapter/abi/common.h"

/// Lines for people, through NCCL's logger; to stderr before NCCL gave one.
/// Thread: any.
namespace lyre::nccl_adapter {

void set_logger(nccl_abi::Logger logger);

/// One line; the prefix "NET/Lyre : " is added.
__attribute__((format(printf, 1, 2))) void log_warn(const char* format, ...);
__attribute__((format(printf, 1, 2))) void log_info(const char* format, ...);

/// Prints the line to stderr and through NCCL's logger, and ends the process with status 1.
[[noreturn]] __attribute__((format(printf, 1, 2))) void die(const char* format, ...);

}  // namespace lyre::nccl_adapter
