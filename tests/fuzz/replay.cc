// Runs inputs of the TCP fuzzers: `fuzz_replay segment FILE...`. A failed check aborts the process.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/script.h"

int main(int argc, char** argv) {
  const std::string target = argc > 1 ? argv[1] : "";
  if (argc < 3 || (target != "segment" && target != "two_stacks")) {
    std::fputs("usage: fuzz_replay segment|two_stacks FILE...\n", stderr);
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
    std::fprintf(stderr, "%s, %zu bytes\n", argv[i], text.size());
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    target == "segment" ? lyre::fuzz::run_segments({bytes, text.size()})
                        : lyre::fuzz::run_two_stacks({bytes, text.size()});
  }
  return 0;
}
