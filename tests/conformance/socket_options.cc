#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/conformance/sockets.h"

#ifndef SOL_TCP
#define SOL_TCP IPPROTO_TCP
#endif

/// getsockopt() and setsockopt().
namespace lyre::conformance {

namespace {

constexpr uint32_t kBufferBytesMin = 2304;  ///< Linux's minimum
constexpr uint32_t kBufferBytesMax = 1u << 30;

int to_int(std::span<const uint8_t> value) {
  int out = 0;
  std::memcpy(&out, value.data(), std::min(value.size(), sizeof out));
  return out;
}

uint32_t whole_ms(int64_t seconds) {
  return static_cast<uint32_t>(std::min<int64_t>(seconds * 1000, UINT32_MAX));
}

/// Linux doubles the requested size for its own overhead, and returns the doubled size.
uint32_t buffer_bytes(int asked) {
  const uint64_t doubled = uint64_t{static_cast<uint32_t>(std::max(asked, 0))} * 2;
  return static_cast<uint32_t>(std::clamp<uint64_t>(doubled, kBufferBytesMin, kBufferBytesMax));
}

const char* linux_name(tcp::CongestionAlgorithm algorithm) {
  switch (algorithm) {
    case tcp::CongestionAlgorithm::kNewReno:
      return "reno";
    case tcp::CongestionAlgorithm::kCubic:
      return "cubic";
    case tcp::CongestionAlgorithm::kDctcp:
      return "dctcp";
  }
  return "";
}

/// The enum values of Linux's tcpi_state.
uint8_t linux_state(tcp::State state) {
  switch (state) {
    case tcp::State::kEstablished:
      return 1;
    case tcp::State::kSynSent:
      return 2;
    case tcp::State::kSynReceived:
      return 3;
    case tcp::State::kFinWait1:
      return 4;
    case tcp::State::kFinWait2:
      return 5;
    case tcp::State::kTimeWait:
      return 6;
    case tcp::State::kClosed:
      return 7;
    case tcp::State::kCloseWait:
      return 8;
    case tcp::State::kLastAck:
      return 9;
    case tcp::State::kClosing:
      return 11;
  }
  return 7;
}

uint32_t to_micros(Nanos span) { return static_cast<uint32_t>(span.value / 1000); }

}  // namespace

void Sockets::apply_config(int fd, Socket& socket) {
  if (socket.is_listener) host_.listeners().configure(fd, socket.config);
  if (socket.conn != tcp::kNoConn) host_.configure(socket.conn, socket.config);
}

int Sockets::set_option(int fd, int level, int name, const void* value, socklen_t length) {
  Socket& socket = sockets_.at(fd);
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(value), length);
  if (level == SOL_SOCKET) return set_socket_option(fd, socket, name, bytes);
  if (level == SOL_TCP && name == TCP_CONGESTION) {
    const std::string wanted(bytes.begin(), std::find(bytes.begin(), bytes.end(), uint8_t{0}));
    StackOptions chosen;
    if (!apply_flags("tcp_congestion_control=" + wanted, chosen).empty()) return -ENOENT;
    socket.config.congestion = chosen.connection.congestion;
    apply_config(fd, socket);
    return 0;
  }
  if (level == SOL_TCP) {
    return length < sizeof(int) ? -EINVAL : set_tcp_option(fd, socket, name, to_int(bytes));
  }
  return level == IPPROTO_IP || level == IPPROTO_IPV6 ? 0 : -ENOPROTOOPT;
}

int Sockets::set_socket_option(int fd, Socket& socket, int name, std::span<const uint8_t> value) {
  if (value.size() < sizeof(int)) return -EINVAL;
  const int number = to_int(value);
  switch (name) {
    case SO_REUSEADDR:
      socket.has_reuse = number != 0;
      return 0;
    case SO_RCVBUF:
      // Half of the size that Linux reports is for its overhead.
      socket.config.receive_buffer_bytes = buffer_bytes(number) / 2;
      break;
    case SO_SNDBUF:
      socket.config.send_buffer_bytes = buffer_bytes(number);
      break;
    case SO_KEEPALIVE:
      socket.has_keepalive = number != 0;
      socket.config.keepalive = socket.has_keepalive;
      break;
    case SO_LINGER: {
      linger asked{};
      if (value.size() < sizeof asked) return -EINVAL;
      std::memcpy(&asked, value.data(), sizeof asked);
      socket.has_linger = asked.l_onoff != 0;
      socket.linger_seconds = asked.l_linger;
      return 0;
    }
    default:
      return name == SO_ERROR ? -ENOPROTOOPT : 0;
  }
  apply_config(fd, socket);
  return 0;
}

int Sockets::set_tcp_option(int fd, Socket& socket, int name, int value) {
  tcp::ConnectionConfig& config = socket.config;
  switch (name) {
    case TCP_NODELAY:
      config.nagle = value == 0;
      break;
    case TCP_CORK:
      config.cork = value != 0;
      break;
    case TCP_MAXSEG: {
      if (value < 88 || value > 32767) return -EINVAL;
      socket.asked_mss = static_cast<uint32_t>(value);
      config.mss_bytes = static_cast<uint16_t>(value);
      break;
    }
    case TCP_QUICKACK:
      config.quick_ack = value != 0;
      break;
    case TCP_NOTSENT_LOWAT:
      socket.unsent_low = static_cast<uint32_t>(value);
      if (socket.conn == tcp::kNoConn) return 0;
      host_.set_unsent_low(socket.conn, value == 0 ? UINT32_MAX : socket.unsent_low);
      return 0;
    case TCP_INQ:
      if (value < 0 || value > 1) return -EINVAL;
      socket.has_inq = value != 0;
      return 0;
    default:
      if (const int error = set_tcp_timer(config, name, value)) return error;
  }
  apply_config(fd, socket);
  return 0;
}

int Sockets::set_tcp_timer(tcp::ConnectionConfig& config, int name, int value) const {
  const tcp::ConnectionConfig& defaults = host_.options().connection;
  switch (name) {
    case TCP_KEEPIDLE:
      if (value < 1 || value > 32767) return -EINVAL;
      config.keepalive_idle_ms = whole_ms(value);
      break;
    case TCP_KEEPINTVL:
      if (value < 1 || value > 32767) return -EINVAL;
      config.keepalive_interval_ms = whole_ms(value);
      break;
    case TCP_KEEPCNT:
      if (value < 1 || value > 127) return -EINVAL;
      config.keepalive_count = static_cast<uint8_t>(value);
      break;
    case TCP_USER_TIMEOUT:
      if (value < 0) return -EINVAL;
      config.user_timeout_ms = value == 0 ? defaults.user_timeout_ms : static_cast<uint32_t>(value);
      config.connect_timeout_ms =
          value == 0 ? defaults.connect_timeout_ms : static_cast<uint32_t>(value);
      break;
    case TCP_LINGER2:
      config.orphan_timeout_ms = value < 0 ? 0 : value == 0 ? 60'000 : whole_ms(value);
      break;
    case TCP_SYNCNT:
      if (value < 1 || value > 127) return -EINVAL;
      config.connect_timeout_ms = whole_ms((int64_t{1} << std::min(value + 1, 30)) - 1);
      break;
    case TCP_DEFER_ACCEPT:
      config.accept_defer_ms = whole_ms(std::max(value, 0));
      break;
    default:
      break;  // other options have no effect on the wire
  }
  return 0;
}

int Sockets::get_option(int fd, int level, int name, void* value, socklen_t* length) {
  Socket& socket = sockets_.at(fd);
  if (level == SOL_TCP && name == TCP_INFO) return fill_info(socket, value, length);
  if (level == SOL_SOCKET && name == SO_LINGER) {
    const linger out{.l_onoff = socket.has_linger, .l_linger = socket.linger_seconds};
    std::memcpy(value, &out, std::min<size_t>(*length, sizeof out));
    *length = sizeof out;
    return 0;
  }
  if (level == SOL_TCP && name == TCP_CONGESTION) {
    const char* text = linux_name(socket.config.congestion);
    std::memset(value, 0, *length);
    std::memcpy(value, text, std::min<size_t>(*length, std::strlen(text)));
    return 0;
  }
  int number = 0;
  if (level != SOL_SOCKET && level != SOL_TCP) return -ENOPROTOOPT;
  const int error = level == SOL_SOCKET ? get_socket_option(socket, name, number)
                                        : get_tcp_option(socket, name, number);
  if (error != 0) return error;
  std::memcpy(value, &number, std::min<size_t>(*length, sizeof number));
  *length = static_cast<socklen_t>(std::min<size_t>(*length, sizeof number));
  return 0;
}

int Sockets::get_socket_option(Socket& socket, int name, int& value) {
  switch (name) {
    case SO_ERROR:
      value = take_error(socket);
      break;
    case SO_REUSEADDR:
      value = socket.has_reuse;
      break;
    case SO_RCVBUF:
      value = static_cast<int>(socket.config.receive_buffer_bytes * 2);
      break;
    case SO_SNDBUF:
      value = static_cast<int>(socket.config.send_buffer_bytes);
      break;
    case SO_KEEPALIVE:
      value = socket.has_keepalive;
      break;
    case SO_TYPE:
      value = SOCK_STREAM;
      break;
    case SO_ACCEPTCONN:
      value = socket.is_listener;
      break;
    default:
      return -ENOPROTOOPT;
  }
  return 0;
}

int Sockets::get_tcp_option(const Socket& socket, int name, int& value) const {
  const tcp::ConnectionConfig& config = socket.config;
  switch (name) {
    case TCP_NODELAY:
      value = !config.nagle;
      return 0;
    case TCP_CORK:
      value = config.cork;
      return 0;
    case TCP_MAXSEG: {
      const Stream* stream = stream_of(socket);
      if (stream != nullptr && stream->is_established) {
        value = static_cast<int>(host_.engine().segment_payload_bytes(socket.conn));
      } else {
        value = socket.asked_mss != 0 ? static_cast<int>(socket.asked_mss) : 536;
      }
      return 0;
    }
    case TCP_QUICKACK:
      value = config.quick_ack;
      return 0;
    case TCP_NOTSENT_LOWAT:
      value = static_cast<int>(socket.unsent_low);
      return 0;
    case TCP_INQ:
      value = socket.has_inq;
      return 0;
    default:
      return get_tcp_timer(config, name, value);
  }
}

int Sockets::get_tcp_timer(const tcp::ConnectionConfig& config, int name, int& value) const {
  const auto whole_seconds = [](uint32_t ms) { return static_cast<int>(ms / 1000); };
  switch (name) {
    case TCP_KEEPIDLE:
      value = whole_seconds(config.keepalive_idle_ms);
      return 0;
    case TCP_KEEPINTVL:
      value = whole_seconds(config.keepalive_interval_ms);
      return 0;
    case TCP_KEEPCNT:
      value = config.keepalive_count;
      return 0;
    case TCP_USER_TIMEOUT:
      value = config.user_timeout_ms == host_.options().connection.user_timeout_ms
                  ? 0
                  : static_cast<int>(config.user_timeout_ms);
      return 0;
    case TCP_LINGER2:
      value = whole_seconds(config.orphan_timeout_ms);
      return 0;
    case TCP_DEFER_ACCEPT:
      value = whole_seconds(config.accept_defer_ms);
      return 0;
    default:
      return -ENOPROTOOPT;
  }
}

int Sockets::fill_info(const Socket& socket, void* value, socklen_t* length) const {
  tcp_info out{};
  out.tcpi_state = socket.is_listener ? 10 : 7;
  if (socket.conn != tcp::kNoConn) {
    const tcp::ConnectionInfo info = host_.engine().info(socket.conn);
    const uint32_t mss = std::max(info.mss_bytes, 1u);
    out.tcpi_state = linux_state(info.state);
    out.tcpi_rto = to_micros(info.rto);
    out.tcpi_snd_mss = host_.engine().segment_payload_bytes(socket.conn);
    out.tcpi_rtt = to_micros(info.srtt);
    out.tcpi_rttvar = to_micros(info.rtt_var);
    out.tcpi_min_rtt = to_micros(info.rtt_min);
    out.tcpi_snd_ssthresh = info.ssthresh_bytes / mss;
    out.tcpi_snd_cwnd = info.cwnd_bytes / mss;
    out.tcpi_unacked = (info.in_flight_bytes + mss - 1) / mss;
    out.tcpi_bytes_acked = info.bytes_acked;
    out.tcpi_bytes_received = info.bytes_received;
    out.tcpi_total_retrans = static_cast<uint32_t>(info.bytes_retransmitted / mss);
    out.tcpi_segs_out = static_cast<uint32_t>(info.segments_sent);
    out.tcpi_segs_in = static_cast<uint32_t>(info.segments_received);
    out.tcpi_rcv_space = info.receive_window_bytes;
  }
  std::memcpy(value, &out, std::min<size_t>(*length, sizeof out));
  *length = static_cast<socklen_t>(std::min<size_t>(*length, sizeof out));
  return 0;
}

}  // namespace lyre::conformance
