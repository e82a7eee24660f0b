#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/sockets.h"

namespace lyre::conformance {

/// TCP control bits with short names, because scenarios use many.
inline constexpr uint8_t kFin = wire::TcpFlags::kFin;
inline constexpr uint8_t kSyn = wire::TcpFlags::kSyn;
inline constexpr uint8_t kRst = wire::TcpFlags::kRst;
inline constexpr uint8_t kPsh = wire::TcpFlags::kPsh;
inline constexpr uint8_t kAck = wire::TcpFlags::kAck;
inline constexpr uint8_t kUrg = wire::TcpFlags::kUrg;
inline constexpr uint8_t kEce = wire::TcpFlags::kEce;
inline constexpr uint8_t kCwr = wire::TcpFlags::kCwr;

/// The IP version of a scenario. TCP sizes are the same with both: the MTU of IPv6 is larger by the
/// difference of the headers.
enum class Family : uint8_t { kIpv4, kIpv6 };

/// A suite derived from this runs each test with both families: `INSTANTIATE_OVER_BOTH(Suite);`.
class OverBoth : public testing::TestWithParam<Family> {};
inline constexpr Family kFamilies[] = {Family::kIpv4, Family::kIpv6};
#define INSTANTIATE_OVER_BOTH(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Ip, suite, testing::ValuesIn(kFamilies), [](const auto& family) { \
    return family.param == Family::kIpv4 ? "v4" : "v6";                                      \
  })

/// ICMP errors, independent of a family's numbers for them.
enum class IcmpSays : uint8_t { kTooBig, kNoPort, kNoProtocol, kProhibited, kTimeExceeded };

/// A segment as a scenario sends it, and as it receives those of the stack. Sequence numbers are
/// relative to each side's SYN, which is 0: the first byte of text is 1.
struct Seg {
  uint8_t flags = 0;
  uint32_t seq = 0;
  uint32_t ack = 0;
  uint32_t bytes = 0;
  uint16_t window = 60000;
  wire::TcpOptions options;
  wire::Ecn ecn = wire::Ecn::kNotEct;
  Nanos at;  ///< of a segment that was seen

  bool is(uint8_t wanted) const { return (flags & ~kPsh) == wanted; }
};

std::string to_string(const Seg& segment);

/// Edges of SACK blocks, in the same units as Seg::ack.
using Blocks = std::vector<std::pair<uint32_t, uint32_t>>;
/// Options of an ACK that SACKs `blocks`.
wire::TcpOptions sack(const Blocks& blocks);
/// The blocks that a segment of the stack carries.
Blocks blocks_of(const Seg& segment);
/// The options `beside`, and a timestamp.
wire::TcpOptions stamp(uint32_t value, uint32_t echo = 0, wire::TcpOptions beside = {});

/// A host under test and the peer that a test simulates, on a virtual clock. Packets are complete:
/// they pass the real parsers, with checksums.
class Scenario {
 public:
  static constexpr uint16_t kOwnPort = 80;
  static constexpr uint16_t kPeerPort = 5555;
  static constexpr uint32_t kPeerIss = 0xfffffff0;  ///< wraps soon

  explicit Scenario(const StackOptions& options = plain(), Family family = Family::kIpv4);
  explicit Scenario(Family family) : Scenario(plain(), family) {}
  /// No timestamps, no scaling, MSS 1000 on both sides: numbers stay readable.
  static StackOptions plain();
  static StackOptions with_timestamps();

  // The peer's side.
  void send(const Seg& segment);
  void send_raw(std::vector<uint8_t> packet);
  /// The packet that send() would send, for tests that corrupt it.
  std::vector<uint8_t> build(const Seg& segment) const;
  /// Sends an ICMP error that quotes our text at `quoted_seq`.
  void send_icmp(IcmpSays what, uint32_t quoted_seq, uint16_t mtu = 0);

  /// The next packet that the stack sent; empty if there is none.
  std::optional<Seg> next();
  std::vector<Seg> all();
  /// Fails the test when nothing was sent, or a segment with other flags (PSH is ignored).
  Seg expect(uint8_t flags);
  void expect_silence();
  /// As expect(), after time has advanced to the next timer.
  Seg expect_later(uint8_t flags);
  void wait(Nanos span) { host.advance_to(host.now() + span); }

  // The program's side.
  int open();
  int listen(int backlog = 5);
  int accept();
  int connect();
  ssize_t write(size_t bytes, int flags = 0);
  ssize_t read(size_t bytes = 100000);
  void set(int level, int name, int value);
  int error();
  int close();

  /// `socket` becomes an established connection that the peer opened, or that we opened.
  void establish_passive(const wire::TcpOptions& offer = offered(), uint16_t window = 60000);
  void establish_active(const wire::TcpOptions& offer = offered(), uint16_t window = 60000);
  static wire::TcpOptions offered(uint16_t mss);
  static wire::TcpOptions offered() { return offered(1000); }

  uint64_t drops(Drop reason) const { return host.drops(reason); }
  /// Drops for all reasons.
  uint64_t drops() const;
  tcp::State state() const { return host.engine().state(conn); }
  tcp::ConnectionInfo info() const { return host.engine().info(conn); }

  const IpAddress own_address;
  const IpAddress peer_address;
  Host host;
  Sockets sockets;
  int listener = -1;
  int socket = -1;
  tcp::ConnId conn = tcp::kNoConn;
  uint16_t peer_port = kPeerPort;
  uint16_t own_port = kOwnPort;
  SeqNum own_iss;

 private:
  Seg parse(const EmittedPacket& packet);

  int next_fd_ = 100;
};

}  // namespace lyre::conformance
