#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/sockets.h"

namespace lyre::conformance {

/// TCP control bits, short: a scenario names many.
inline constexpr uint8_t kFin = wire::TcpFlags::kFin;
inline constexpr uint8_t kSyn = wire::TcpFlags::kSyn;
inline constexpr uint8_t kRst = wire::TcpFlags::kRst;
inline constexpr uint8_t kPsh = wire::TcpFlags::kPsh;
inline constexpr uint8_t kAck = wire::TcpFlags::kAck;
inline constexpr uint8_t kUrg = wire::TcpFlags::kUrg;
inline constexpr uint8_t kEce = wire::TcpFlags::kEce;
inline constexpr uint8_t kCwr = wire::TcpFlags::kCwr;

/// Which IP a scenario speaks. Sizes are the same over both: IPv6 gets an MTU that is larger by
/// what its header is.
enum class Family : uint8_t { kIpv4, kIpv6 };

/// Tests of a suite that is one of these run once over each: `INSTANTIATE_OVER_BOTH(Suite);`.
class OverBoth : public testing::TestWithParam<Family> {};
inline constexpr Family kFamilies[] = {Family::kIpv4, Family::kIpv6};
#define INSTANTIATE_OVER_BOTH(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Ip, suite, testing::ValuesIn(kFamilies), [](const auto& family) { \
    return family.param == Family::kIpv4 ? "v4" : "v6";                                      \
  })

/// ICMP errors, under whatever numbers a family has for them.
enum class IcmpSays : uint8_t { kTooBig, kNoPort, kNoProtocol, kProhibited, kTimeExceeded };

/// A segment as a scenario writes it, and as it sees those of the stack. Sequence numbers count
/// from each side's SYN, which is 0: the first byte of text is 1.
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

/// Edges of SACK blocks, which count like Seg::ack.
using Blocks = std::vector<std::pair<uint32_t, uint32_t>>;
/// Options of an ACK that SACKs `blocks`.
wire::TcpOptions sack(const Blocks& blocks);
/// The blocks that a segment of the stack carries.
Blocks blocks_of(const Seg& segment);
/// `beside`, and a timestamp.
wire::TcpOptions stamp(uint32_t value, uint32_t echo = 0, wire::TcpOptions beside = {});

/// A host under test and the peer that a test plays, on a virtual clock. Packets are real: they
/// pass the parsers, checksums and all.
class Scenario {
 public:
  static constexpr uint16_t kOwnPort = 80;
  static constexpr uint16_t kPeerPort = 5555;
  static constexpr uint32_t kPeerIss = 0xfffffff0;  ///< wraps soon

  explicit Scenario(const StackOptions& options = plain(), Family family = Family::kIpv4);
  explicit Scenario(Family family) : Scenario(plain(), family) {}
  /// No timestamps, no scaling, MSS 1000 from both: numbers stay readable.
  static StackOptions plain();
  static StackOptions with_timestamps();

  // The peer.
  void send(const Seg& segment);
  void send_raw(std::vector<uint8_t> packet);
  /// The packet that send() would send, for tests that damage it.
  std::vector<uint8_t> build(const Seg& segment) const;
  /// An ICMP error about our text at `quoted_seq`.
  void send_icmp(IcmpSays what, uint32_t quoted_seq, uint16_t mtu = 0);

  /// What left since; empty optional: nothing did.
  std::optional<Seg> next();
  std::vector<Seg> all();
  /// Fails the test when nothing left, or something else than `flags` (PSH does not count).
  Seg expect(uint8_t flags);
  void expect_silence();
  /// The same after time has passed up to the next timer.
  Seg expect_later(uint8_t flags);
  void wait(Nanos span) { host.advance_to(host.now() + span); }

  // The program.
  int open();
  int listen(int backlog = 5);
  int accept();
  int connect();
  ssize_t write(size_t bytes, int flags = 0);
  ssize_t read(size_t bytes = 100000);
  void set(int level, int name, int value);
  int error();
  int close();

  /// `socket` is an established connection that the peer dialed, or that we dialed.
  void establish_passive(const wire::TcpOptions& offer = offered(), uint16_t window = 60000);
  void establish_active(const wire::TcpOptions& offer = offered(), uint16_t window = 60000);
  static wire::TcpOptions offered(uint16_t mss);
  static wire::TcpOptions offered() { return offered(1000); }

  uint64_t drops(Drop reason) const { return host.drops(reason); }
  /// For any reason.
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
