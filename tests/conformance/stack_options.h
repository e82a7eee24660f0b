#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stack/base/ip_address.h"
#include "stack/tcp/config.h"

namespace lyre::conformance {

/// When a listener answers with a SYN cookie instead of keeping state.
enum class SynCookies : uint8_t { kNever, kUnderPressure, kAlways };

/// The settings of a host under test. The defaults are those that scripts for Linux assume: window
/// scale 8, Nagle on, delayed ACKs of 40 ms, ECN only when the peer requests it.
struct StackOptions {
  uint64_t seed = 1;
  uint32_t mtu_bytes = 1500;
  IpAddress local_v4 = IpAddress::v4(0xc0a80001);  ///< 192.168.0.1, packetdrill's own default
  IpAddress local_v6;                              ///< fd3d:a0b:17d6::1
  bool learns_addresses = false;                   ///< destinations of packets are own addresses
  SynCookies syn_cookies = SynCookies::kUnderPressure;
  uint32_t backlog_max = 4096;
  uint32_t embryonic_max = 4096;  ///< half-open connections of a listener
  uint32_t tso_segments = 2;      ///< segments in one send, as for a port with TSO
  tcp::ConnectionConfig connection;

  StackOptions();
};

/// `wanted` with the MSS that fits a packet of `mtu_bytes` to `peer`.
tcp::ConnectionConfig fit_mss(const tcp::ConnectionConfig& wanted, uint32_t mtu_bytes,
                              const IpAddress& peer);

/// Applies `text`: NAME=VALUE pairs separated by commas, semicolons or white space; a value with
/// blanks is in double quotes. README.md lists the names, among them Linux's `net.ipv4.tcp_*`.
/// Returns an error text, or an empty string. Unknown Linux names are ignored, because scripts set
/// many that do not affect the wire.
std::string apply_flags(std::string_view text, StackOptions& options);

/// Applies a script's host settings: `//@config: NAME=VALUE` lines (the first of a name counts,
/// because later ones restore the host), the `sysctl` commands in backticks, and --mtu=N.
void apply_script(std::string_view script, StackOptions& options);

}  // namespace lyre::conformance
