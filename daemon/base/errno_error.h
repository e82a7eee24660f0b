#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "stack/base/result.h"

namespace lyre {

/// An error with `what` and the text of errno.
inline Error errno_error(const std::string& what) {
  const int code = errno;
  return Error{code, what + ": " + std::strerror(code)};
}

}  // namespace lyre
