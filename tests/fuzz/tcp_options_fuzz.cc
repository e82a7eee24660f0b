// An untrusted TCP header; the options that were parsed must be the same after being written and
// parsed again.

#include <array>

#include "stack/base/check.h"
#include "stack/wire/tcp_segment.h"

namespace {

using namespace lyre;

void check_same(const wire::TcpHeader& a, const wire::TcpHeader& b) {
  LYRE_CHECK(a.source_port == b.source_port && a.destination_port == b.destination_port);
  LYRE_CHECK(a.seq == b.seq && a.ack == b.ack && a.flags == b.flags && a.window == b.window);
  LYRE_CHECK(a.options.mss == b.options.mss);
  LYRE_CHECK(a.options.window_scale == b.options.window_scale);
  LYRE_CHECK(a.options.sack_permitted == b.options.sack_permitted);
  LYRE_CHECK(a.options.has_timestamps == b.options.has_timestamps);
  LYRE_CHECK(a.options.ts_value == b.options.ts_value && a.options.ts_echo == b.options.ts_echo);
  // Blocks for which the other options leave no room are omitted.
  LYRE_CHECK(b.options.sack_count <= a.options.sack_count);
  for (uint32_t i = 0; i < b.options.sack_count; ++i) {
    LYRE_CHECK(a.options.sacks[i] == b.options.sacks[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Drop drop = Drop::kCount;
  const auto parsed = wire::parse_tcp({data, size}, drop);
  if (!parsed) {
    LYRE_CHECK(drop < Drop::kCount);
    return 0;
  }
  LYRE_CHECK(parsed->header_bytes >= wire::kTcpHeaderBytesMin && parsed->header_bytes <= size);
  std::array<uint8_t, wire::kTcpHeaderBytesMax> written{};
  const uint32_t bytes = wire::write_tcp(parsed->header, 0, written);
  LYRE_CHECK(bytes == wire::tcp_header_bytes(parsed->header));
  const auto again = wire::parse_tcp(std::span(written).first(bytes), drop);
  LYRE_CHECK(again.has_value());
  check_same(parsed->header, again->header);
  return 0;
}
