// Two engines, and a wire between them that changes packets.
#include "tests/fuzz/script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lyre::fuzz::run_two_stacks({data, size});
  return 0;
}
