#include "tests/adapter/raw_peer.h"

#include <algorithm>
#include <stdexcept>

namespace lyre::test {

RawPeer::RawPeer(const std::string& socket, const HandleBuffer& handle) {
  const lyre_options options{.struct_bytes = sizeof options,
                             .socket_path = socket.c_str(),
                             .label = "peer",
                             .arena_bytes = 0,
                             .patience_ms = 60'000};
  if (lyre_context_open(&options, &context_) != 0) throw std::runtime_error(lyre_last_error());
  const nccl_adapter::Handle target = read_handle(handle);
  lyre_addr remote{};
  std::copy(target.address.begin(), target.address.end(), std::begin(remote.address));
  remote.port = target.port;
  if (lyre_connect(context_, nullptr, &remote, &session_) != 0) {
    throw std::runtime_error(lyre_last_error());
  }
  until([&] {
    lyre_poll(context_, 0);
    return lyre_state(session_) != LYRE_CONNECTING;
  });
  if (lyre_state(session_) != LYRE_OPEN) throw std::runtime_error("the raw peer cannot connect");
}

RawPeer::~RawPeer() { lyre_context_close(context_); }

void RawPeer::send(std::span<const uint8_t> bytes) {
  size_t sent = 0;
  until([&] {
    lyre_poll(context_, 0);
    const int64_t n = lyre_send(session_, bytes.data() + sent, bytes.size() - sent);
    if (n > 0) sent += static_cast<size_t>(n);
    return sent == bytes.size() || (n < 0 && n != LYRE_E_AGAIN);
  });
}

void RawPeer::send(const nccl_adapter::Hello& hello) {
  uint8_t bytes[nccl_adapter::kHelloBytes];
  encode(hello, bytes);
  send(bytes);
}

bool RawPeer::is_closed() {
  lyre_poll(context_, 0);
  uint8_t bytes[256];
  const int64_t n = lyre_recv(session_, bytes, sizeof(bytes));
  if (n > 0) received_.insert(received_.end(), bytes, bytes + n);
  return n == 0 || (n < 0 && n != LYRE_E_AGAIN);
}

nccl_adapter::Handle read_handle(const HandleBuffer& handle) {
  nccl_adapter::Handle read;
  if (nccl_adapter::decode(handle, &read) != nccl_adapter::HandleFault::kNone) {
    throw std::runtime_error("the plugin's handle cannot be decoded");
  }
  return read;
}

nccl_adapter::Hello hello_for(const HandleBuffer& handle, uint16_t index, uint16_t count,
                              uint32_t incarnation) {
  nccl_adapter::Hello hello{.stream_index = index,
                            .stream_count = count,
                            .incarnation = incarnation,
                            .pid = 77,
                            .nonce = read_handle(handle).nonce,
                            .host = "impostor"};
  hello.comm_id.fill(7);
  return hello;
}

}  // namespace lyre::test
