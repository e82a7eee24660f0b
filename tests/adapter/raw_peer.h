#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/handle.h"
#include "nccl_adapter/protocol/hello.h"
#include "tests/adapter/link.h"

namespace lyre::test {

/// A peer without the plugin: a session to the port that a handle names, over which a test sends
/// bytes of its choice.
class RawPeer {
 public:
  /// Attaches to `socket` and connects. Fails: throws std::runtime_error.
  RawPeer(const std::string& socket, const HandleBuffer& handle);
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  void send(std::span<const uint8_t> bytes);
  void send(const nccl_adapter::Hello& hello);
  /// Whether the other side has closed the connection. The bytes that it sent are added to
  /// received().
  bool is_closed();
  const std::vector<uint8_t>& received() const { return received_; }

 private:
  lyre_context* context_ = nullptr;
  lyre_session* session_ = nullptr;
  std::vector<uint8_t> received_;
};

/// Decodes a handle of the plugin.
nccl_adapter::Handle read_handle(const HandleBuffer& handle);
/// The hello of a peer that has the handle, for stream `index` of a comm with `count` streams.
nccl_adapter::Hello hello_for(const HandleBuffer& handle, uint16_t index, uint16_t count,
                              uint32_t incarnation = 1);

}  // namespace lyre::test
