#pragma once

#include <string>

namespace lyre::nccl_adapter {

/// The text of `code`, an errno of what locks memory: a registration, a queue. Where there was no
/// memory (ENOMEM) it names RLIMIT_MEMLOCK, unless this process has no such limit. Thread: any.
std::string memory_error_text(int code);

}  // namespace lyre::nccl_adapter
