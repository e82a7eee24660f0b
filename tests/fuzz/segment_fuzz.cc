// One connection in every state, against a peer that sends anything at any time.
#include "tests/fuzz/script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lyre::fuzz::run_segments({data, size});
  return 0;
}
