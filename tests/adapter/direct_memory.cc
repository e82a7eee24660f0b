#include "tests/adapter/direct_memory.h"

#include <gtest/gtest.h>

#include "lyre/lyre.h"

namespace lyre::test {

bool is_direct(const std::string& socket, const SharedPages& memory) {
  const lyre_options options{.struct_bytes = sizeof options,
                             .socket_path = socket.c_str(),
                             .label = "direct",
                             .arena_bytes = 0,
                             .patience_ms = 60'000};
  lyre_context* context = nullptr;
  lyre_region* region = nullptr;
  EXPECT_EQ(lyre_context_open(&options, &context), 0);
  EXPECT_EQ(lyre_register(context, memory.data(), memory.bytes(), &region), 0);
  const bool is_direct = lyre_region_is_direct(region, nullptr) != 0;
  EXPECT_EQ(lyre_deregister(region), 0);
  lyre_context_close(context);
  return is_direct;
}

}  // namespace lyre::test
