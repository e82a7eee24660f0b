#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stack/base/ip_address.h"
#include "stack/tcp/config.h"

namespace lyre::conformance {

/// When a listener answers with a SYN cookie instead of keeping state.
enum class SynCookies : uint8_t { kNever, kUnderPressure, kAlways };

/// What a host under test is set up with. The defaults are those that Linux scripts take for
/// granted: window scale 8, Nagle on, delayed ACKs of 40 ms, ECN only when the peer asks.
struct StackOptions {
  uint64_t seed = 1;
  uint32_t mtu_bytes = 1500;
  IpAddress local_v4 = IpAddress::v4(0xc0a80001);  ///< 192.168.0.1, packetdrill's own default
  IpAddress local_v6;                              ///< fd3d:a0b:17d6::1
  bool learns_addresses = false;                   ///< what a packet is for is an own address
  SynCookies syn_cookies = SynCookies::kUnderPressure;
  uint32_t backlog_max = 4096;
  uint32_t embryonic_max = 4096;  ///< handshakes under way that a listener keeps
  uint32_t train_segments = 2;    ///< handed down at once, as to a port that cuts segments
  tcp::ConnectionConfig connection;

  StackOptions();
};

/// Applies `text`: NAME=VALUE pairs divided by commas, semicolons or white space; a value with
/// blanks stands in double quotes. README.md lists the names; Linux's `net.ipv4.tcp_*` are among
/// them. Returns what is wrong with it, or an empty string. Names that mean nothing here are let
/// pass when they are Linux's, for scripts name many that do not change what is on the wire.
std::string apply_flags(std::string_view text, StackOptions& options);

/// Applies what a script says about its host: `//@config: NAME=VALUE` lines (the first of a name
/// counts: later ones put the host back), the `sysctl` commands in backticks, and --mtu=N.
void apply_script(std::string_view script, StackOptions& options);

}  // namespace lyre::conformance
