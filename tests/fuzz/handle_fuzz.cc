// The 128 bytes of an NCCL handle, and addresses in text form.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "libclient/include/lyre/lyre.h"
#include "nccl_adapter/protocol/handle.h"

namespace {

using namespace lyre::nccl_adapter;

void require(bool claim) {
  if (!claim) std::abort();
}

void read_handle(const uint8_t* data, size_t size) {
  std::array<uint8_t, lyre::nccl_abi::kHandleBytesMax> bytes{};
  std::copy_n(data, std::min(size, bytes.size()), bytes.begin());
  require(!describe_foreign(bytes).empty());
  Handle handle;
  if (decode(bytes, &handle) == HandleFault::kNone) require(handle.host.size() < kHostNameBytes);
}

/// A written handle can be read again, and a single wrong bit is detected.
void write_handle(const uint8_t* data, size_t size) {
  Handle handle;
  const size_t count = std::min(size, handle.nonce.size());
  std::copy_n(data, count, handle.nonce.begin());
  handle.port = static_cast<uint16_t>(size * 257);
  handle.host.assign(reinterpret_cast<const char*>(data) + count, size - count);
  std::array<uint8_t, lyre::nccl_abi::kHandleBytesMax> bytes{};
  encode(handle, bytes);
  Handle same;
  require(decode(bytes, &same) == HandleFault::kNone);
  require(same.nonce == handle.nonce && same.port == handle.port);
  require(same.host.size() <= handle.host.size() && same.host.size() < kHostNameBytes);
  if (size == 0) return;
  bytes[8 + data[0] % 112] ^= static_cast<uint8_t>(1u << data[0] % 8);
  require(decode(bytes, &same) != HandleFault::kNone);
}

void read_address(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  lyre_addr address{};
  require(lyre_addr_parse(text.c_str(), &address) <= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto act = data[0] % 3 == 0 ? read_handle : data[0] % 3 == 1 ? read_address : write_handle;
  act(data + 1, size - 1);
  return 0;
}
