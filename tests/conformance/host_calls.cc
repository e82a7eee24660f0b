#include <algorithm>

#include "stack/base/check.h"
#include "tests/conformance/host.h"

/// The effects of socket calls on a host.
namespace lyre::conformance {

tcp::ConnId Host::connect(const FourTuple& tuple, const tcp::ConnectionConfig& config, int socket) {
  if (find(tuple) != tcp::kNoConn) return tcp::kNoConn;
  const tcp::ConnId conn =
      engine_.open_active(tuple, fit_mss(config, options_.mtu_bytes, tuple.remote.address), now_);
  if (conn == tcp::kNoConn) return conn;
  flows_[tuple] = conn;
  streams_[conn].socket = socket;
  transmit(conn);
  return conn;
}

void Host::open_listener(int socket, const Endpoint& local, uint32_t backlog,
                         const tcp::ConnectionConfig& config) {
  listeners_.open(socket, local, std::min(backlog, options_.backlog_max), config);
}

void Host::close_listener(int socket) {
  std::vector<tcp::ConnId> waiting;
  for (const auto& [conn, stream] : streams_) {
    if (stream.listener == socket) waiting.push_back(conn);
  }
  for (const tcp::ConnId conn : waiting) {
    const bool is_embryonic = !streams_.at(conn).is_established;
    streams_.at(conn).listener = Stream::kNoOwner;
    if (is_embryonic) {
      forget(conn);  // as Linux does: a peer that continues is answered with RST
    } else {
      abort(conn);
    }
  }
  listeners_.close(socket);
}

std::optional<tcp::ConnId> Host::accept(int listener, int socket) {
  const std::optional<tcp::ConnId> conn = listeners_.accept(listener);
  if (!conn) return conn;
  streams_.at(*conn).listener = Stream::kNoOwner;
  streams_.at(*conn).socket = socket;
  return conn;
}

/// As in Linux, a send buffer is a threshold, not a limit: bytes are taken in chunks of half the
/// peer's window, and a chunk is started while less than the buffer's size is queued.
uint32_t Host::chunk_room_bytes(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  const tcp::ConnectionInfo info = engine_.info(conn);
  const uint32_t unsent = engine_.info(conn).unsent_bytes;
  const uint32_t half = info.send_window_bytes_max / 2;
  const uint32_t chunk = std::max(half - half % std::max(info.mss_bytes, 1u), info.mss_bytes);
  const uint32_t held = std::min(unsent, stream.chunk_bytes);  // the part of it that was not sent
  if (held > 0 && held < chunk) return chunk - held;
  const bool is_full = stream.unacked.size() >= engine_.config(conn).send_buffer_bytes ||
                       unsent >= stream.unsent_low_bytes;
  if (is_full) return 0;
  stream.chunk_bytes = 0;
  return chunk;
}

uint32_t Host::send(tcp::ConnId conn, std::span<const uint8_t> bytes, bool has_more) {
  uint32_t taken = 0;
  while (taken < bytes.size() && !streams_.at(conn).is_over) {
    const auto rest = bytes.subspan(taken);
    const auto count = static_cast<uint32_t>(std::min<size_t>(rest.size(), chunk_room_bytes(conn)));
    if (count == 0) break;
    Stream& stream = streams_.at(conn);
    stream.unacked.insert(stream.unacked.end(), rest.begin(), rest.begin() + count);
    stream.chunk_bytes = std::min(stream.chunk_bytes, engine_.info(conn).unsent_bytes) + count;
    taken += count;
    append(conn, count, has_more || taken < bytes.size());
  }
  const bool was_cut = taken > 0 && taken < bytes.size();
  if (was_cut && !has_more) append(conn, 0, false);  // the caller asks again for the rest
  return taken;
}

void Host::append(tcp::ConnId conn, uint32_t bytes, bool has_more) {
  if (streams_.at(conn).is_over) return;
  effects_ = engine_.on_app_send(conn, bytes, now_,
                                 has_more ? tcp::SendMark::kMore : tcp::SendMark::kPush);
  apply(conn);
}

/// Takes all payload that the engine can return, so that `readable` holds all of it.
void Host::pull(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  while (const auto slice = engine_.receive_queue(conn).take_readable()) {
    const std::vector<uint8_t>& payload = payloads_.at(slice->handle.slot);
    const auto begin = payload.begin() + slice->offset;
    stream.readable.insert(stream.readable.end(), begin, begin + slice->length);
    stream.readable_charge_bytes +=
        std::max(options_.connection.slot_bytes, static_cast<uint32_t>(payload.size()));
    payloads_.erase(slice->handle.slot);
  }
}

uint32_t Host::readable_bytes(tcp::ConnId conn) const {
  const Stream& stream = streams_.at(conn);
  const tcp::ConnectionInfo info = engine_.info(conn);
  return static_cast<uint32_t>(info.bytes_received - stream.read_bytes);
}

uint32_t Host::receive_into(tcp::ConnId conn, std::span<uint8_t> out, bool is_peek) {
  pull(conn);
  Stream& stream = streams_.at(conn);
  const auto count = static_cast<uint32_t>(std::min(out.size(), stream.readable.size()));
  std::copy_n(stream.readable.begin(), count, out.begin());
  if (is_peek || count == 0) return count;
  const auto held = static_cast<uint32_t>(stream.readable.size());
  stream.readable.erase(stream.readable.begin(), stream.readable.begin() + count);
  stream.read_bytes += count;
  const auto charge = static_cast<uint32_t>(uint64_t{stream.readable_charge_bytes} * count / held);
  stream.readable_charge_bytes -= charge;
  if (stream.is_over) return count;
  effects_ = engine_.on_app_release(conn, charge, now_);
  apply(conn);
  return count;
}

void Host::shutdown(tcp::ConnId conn) {
  if (streams_.at(conn).is_over) return;
  effects_ = engine_.on_app_shutdown(conn, now_);
  apply(conn);
}

void Host::close(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  stream.socket = Stream::kNoOwner;
  if (stream.is_over) return forget(conn);
  // RFC 9293 3.6.1, RFC 2525 2.17: a close with unread bytes sends RST.
  if (readable_bytes(conn) > 0) return abort(conn);
  effects_ = engine_.on_app_close(conn, now_);
  apply(conn);
}

void Host::abort(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  stream.socket = Stream::kNoOwner;
  if (stream.is_over) return forget(conn);
  const auto reset = engine_.on_app_abort(conn, now_);
  if (reset) output_.emit(engine_.tuple(conn), *reset, {}, now_);
  end(conn);
}

void Host::configure(tcp::ConnId conn, const tcp::ConnectionConfig& config) {
  if (streams_.at(conn).is_over) return;
  effects_ = engine_.configure(conn, config, now_);
  apply(conn);
}

uint16_t Host::choose_port(const IpAddress& local, const Endpoint& remote) {
  while (find({{local, next_port_}, remote}) != tcp::kNoConn) ++next_port_;
  return next_port_++;
}

}  // namespace lyre::conformance
