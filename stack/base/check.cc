#include "stack/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lyre {

void check_failed(const char* claim, const char* file, int line) {
  std::fprintf(stderr, "lyre: broken invariant: %s (%s:%d)\n", claim, file, line);
  std::abort();
}

}  // namespace lyre
