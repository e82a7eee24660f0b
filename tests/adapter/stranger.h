#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/protocol/hello.h"
#include "tests/adapter/link.h"

namespace lyre::test {

/// Somebody on the network who is no plugin: a plain session to the port that a handle names.
class Stranger {
 public:
  /// Attaches to `socket` and connects. Fails: throws std::runtime_error.
  Stranger(const std::string& socket, const HandleBuffer& handle);
  ~Stranger();
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void say(std::span<const uint8_t> bytes);
  void say(const nccl_adapter::Hello& hello);
  /// Whether the other side ended the connection; what it said goes to heard().
  bool is_shown_out();
  const std::vector<uint8_t>& heard() const { return heard_; }

 private:
  lyre_context* context_ = nullptr;
  lyre_session* session_ = nullptr;
  std::vector<uint8_t> heard_;
};

/// What the plugin wrote into a handle.
nccl_adapter::Handle read_handle(const HandleBuffer& handle);
/// What a peer with that handle would say first, on stream `index` of a comm of `count`.
nccl_adapter::Hello hello_for(const HandleBuffer& handle, uint16_t index, uint16_t count,
                              uint32_t incarnation = 1);

}  // namespace lyre::test
