#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "stack/base/result.h"

namespace lyre {

/// What failed and why, for a call of the kernel that has just set errno.
inline Error errno_error(const std::string& what) {
  const int code = errno;
  return Error{code, what + ": " + std::strerror(code)};
}

}  // namespace lyre
