#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/pcap/capture_clock.h"
#include "tools/lyre/pcap/packet_file.h"
#include "tools/lyre/pcap/packet_filter.h"
#include "tools/lyre/pcap/packet_stream.h"
#include "tools/lyre/pcap/pcapng.h"

// What `lyre pcap` makes of captured packets. libpcap reads the files.
namespace lyre::tools {
namespace {

/// Ethernet, IPv4 and TCP headers of a SYN from 10.0.0.1:1000 to 10.0.0.2:2000, and some bytes.
std::vector<uint8_t> tcp_packet(size_t payload_bytes) {
  std::vector<uint8_t> packet = {
      2,    0,    0,    0,    0, 2, 2,    0, 0,  0, 0, 1, 8,    0,  // Ethernet
      0x45, 0,    0,    0,    0, 0, 0x40, 0, 64, 6, 0, 0, 10,   0, 0,    1,    10, 0, 0, 2,  // IPv4
      0x03, 0xe8, 0x07, 0xd0, 0, 0, 0,    1, 0,  0, 0, 0, 0x50, 2, 0xff, 0xff, 0,  0, 0, 0};  // TCP
  packet.resize(packet.size() + payload_bytes, 0xab);
  return packet;
}

uint32_t word_at(const std::string& block, size_t offset) {
  uint32_t value = 0;
  std::memcpy(&value, block.data() + offset, sizeof value);
  return value;
}

/// Type, length at both ends, and whole words: what every block has.
void expect_block(const std::string& block, uint32_t type) {
  EXPECT_EQ(block.size() % 4, 0u);
  EXPECT_EQ(word_at(block, 0), type);
  EXPECT_EQ(word_at(block, 4), block.size());
  EXPECT_EQ(word_at(block, block.size() - 4), block.size());
}

TEST(Pcapng, BlocksHaveTheirTypeAndTheirLengthAtBothEnds) {
  expect_block(pcapng::section_header("lyre"), 0x0a0d0d0a);
  expect_block(pcapng::section_header("lyre 0.1"), 0x0a0d0d0a);
  for (const char* name : {"a", "rail", "rail0"}) {
    expect_block(pcapng::interface_description({.name = name, .filter = name}), 1);
  }
  const std::vector<uint8_t> bytes(9);
  for (size_t count = 0; count < bytes.size(); ++count) {
    expect_block(pcapng::enhanced_packet({.packet_bytes = 9}, std::span(bytes).first(count)), 6);
  }
  expect_block(pcapng::interface_statistics({}), 5);
}

TEST(Pcapng, APacketHasItsTimeInTwoHalvesItsLengthsAndItsDirection) {
  const std::vector<uint8_t> bytes = {1, 2, 3, 4, 5};
  const std::string block = pcapng::enhanced_packet(
      {.unix_ns = 0x0123456789abcdef, .packet_bytes = 1500, .direction = pcapng::Direction::kSent},
      bytes);
  EXPECT_EQ(word_at(block, 12), 0x01234567u);
  EXPECT_EQ(word_at(block, 16), 0x89abcdefu);
  EXPECT_EQ(word_at(block, 20), 5u);
  EXPECT_EQ(word_at(block, 24), 1500u);
  EXPECT_EQ(block.substr(28, 8), std::string("\x01\x02\x03\x04\x05\0\0\0", 8));
  EXPECT_EQ(word_at(block, 36), 2u | 4u << 16);  // epb_flags, four bytes
  EXPECT_EQ(word_at(block, 40), 2u);             // outbound
}

TEST(Pcapng, StatisticsSayWhatWasReceivedAndDropped) {
  const std::string block = pcapng::interface_statistics(
      {.begin_unix_ns = 1, .end_unix_ns = 2, .received = 30, .dropped = 20, .accepted = 10});
  const auto has = [&block](uint16_t code, uint64_t value) {
    std::string option(12, '\0');
    const uint16_t length = 8;
    std::memcpy(option.data(), &code, 2);
    std::memcpy(option.data() + 2, &length, 2);
    std::memcpy(option.data() + 4, &value, 8);
    return block.find(option) != std::string::npos;
  };
  EXPECT_TRUE(has(4, 30) && has(5, 20) && has(6, 10));
}

TEST(PacketFileTest, LibpcapReadsWhatIsWritten) {
  char path[] = "/tmp/lyre-pcap-XXXXXX";
  ::close(::mkstemp(path));
  const std::vector<uint8_t> packet = tcp_packet(1000);
  {
    PacketFile file(path);
    file.write(pcapng::section_header("lyre"));
    file.write(pcapng::interface_description({.name = "wire", .filter = "tcp", .snap_bytes = 100}));
    file.write(pcapng::enhanced_packet({.unix_ns = 1'700'000'000'123'456'789, .packet_bytes = 1054},
                                       std::span(packet).first(99)));
    file.write(pcapng::interface_statistics({}));
    file.flush();
  }
  char error[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> reader(
      pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, error), pcap_close);
  ::unlink(path);
  ASSERT_NE(reader, nullptr) << error;
  EXPECT_EQ(pcap_datalink(reader.get()), DLT_EN10MB);
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  ASSERT_EQ(pcap_next_ex(reader.get(), &header, &bytes), 1) << pcap_geterr(reader.get());
  EXPECT_EQ(header->ts.tv_sec, 1'700'000'000);
  EXPECT_EQ(header->ts.tv_usec, 123'456'789);
  EXPECT_EQ(header->len, 1054u);
  ASSERT_EQ(header->caplen, 99u);
  EXPECT_EQ(std::memcmp(bytes, packet.data(), 99), 0);
  EXPECT_EQ(pcap_next_ex(reader.get(), &header, &bytes), PCAP_ERROR_BREAK);
}

/// A folder with a file `packets` that all may read, as another tool has left it.
class ReplacedFileTest : public ::testing::Test {
 protected:
  ReplacedFileTest() {
    std::string name = testing::TempDir() + "lyre-pcap-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    std::ofstream(path("packets")) << "earlier";
    ::chmod(path("packets").c_str(), 0644);
  }
  ~ReplacedFileTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static void write(const std::string& to) {
    PacketFile file(to);
    file.write("packets");
    file.flush();
  }
  static std::string content(const std::string& of) {
    std::string text;
    std::getline(std::ifstream(of), text);
    return text;
  }
  /// Follows no link.
  static mode_t mode(const std::string& of) {
    struct stat found {};
    EXPECT_EQ(::lstat(of.c_str(), &found), 0);
    return found.st_mode;
  }

  std::string folder_;
};

TEST_F(ReplacedFileTest, OnlyItsOwnerReadsAFileThatWasThere) {
  std::ifstream earlier(path("packets"));
  write(path("packets"));
  EXPECT_EQ(mode(path("packets")), S_IFREG | 0600u);
  EXPECT_EQ(content(path("packets")), "packets");
  std::string text;
  std::getline(earlier, text);
  EXPECT_EQ(text, "earlier") << "who had it open reads no packets";
}

TEST_F(ReplacedFileTest, ALinkStaysAndOnlyTheOwnerReadsItsTarget) {
  std::filesystem::create_symlink("packets", path("link"));
  write(path("link"));
  EXPECT_TRUE(S_ISLNK(mode(path("link"))));
  EXPECT_EQ(mode(path("packets")), S_IFREG | 0600u);
  EXPECT_EQ(content(path("packets")), "packets");
}

TEST_F(ReplacedFileTest, AFifoIsWrittenAsItIs) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0644), 0);
  const int reader = ::open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  write(path("fifo"));
  char bytes[16];
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 7);
  ::close(reader);
  EXPECT_EQ(mode(path("fifo")), S_IFIFO | 0644u);
}

TEST(PacketFileTest, AFileThatCannotBeWrittenIsNamed) {
  try {
    PacketFile file("/dev/full");
    file.write("x");
    file.flush();
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kExitFailure);
    EXPECT_THAT(failure.what(), testing::StartsWith("/dev/full was not written: "));
  }
}

// A service ignores SIGPIPE: there the capture ended with a failure.
TEST_F(ReplacedFileTest, APipeThatItsReaderClosedIsNoFailure) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  {
    PacketFile file(pipe);
    file.write("packets");
    file.flush();
    EXPECT_FALSE(file.has_no_reader());
    ::close(reader);
    file.write("packets");
    file.flush();
    EXPECT_TRUE(file.has_no_reader());
    file.write("packets");
    file.flush();
  }
  std::signal(SIGPIPE, before);
}

TEST(PacketFilterTest, TakesWhatTheExpressionSays) {
  const std::vector<uint8_t> packet = tcp_packet(0);
  const auto takes = [&packet](const char* expression) {
    return PacketFilter(expression).takes(packet, static_cast<uint32_t>(packet.size()));
  };
  EXPECT_TRUE(takes(""));
  EXPECT_TRUE(takes("tcp port 2000 and host 10.0.0.1"));
  EXPECT_TRUE(takes("tcp[tcpflags] & tcp-syn != 0"));
  EXPECT_FALSE(takes("udp"));
  EXPECT_FALSE(takes("tcp port 2001"));
  EXPECT_FALSE(takes("greater 55"));
  EXPECT_TRUE(PacketFilter("greater 1400").takes(packet, 1500)) << "the whole packet counts";
}

TEST(PacketFilterTest, AWrongExpressionIsWrongUse) {
  try {
    const PacketFilter filter("tcp prot 1");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kExitUsage);
    EXPECT_THAT(failure.what(), testing::StartsWith("the filter 'tcp prot 1': "));
  }
}

TEST(PacketStreamTest, ThePacketsOfAllWorkersComeByTime) {
  const auto rings = std::make_unique<channel::CaptureRing[]>(3);
  const auto write = [&rings](uint32_t worker, std::vector<int64_t> times) {
    channel::CaptureProducer producer(rings[worker]);
    for (const int64_t time : times) {
      ASSERT_TRUE(producer.try_begin({.unix_ns = time,
                                      .packet_bytes = 0,
                                      .captured_bytes = 0,
                                      .direction = {},
                                      .reserved = 0}));
      producer.end();
    }
    producer.publish(producer.position());
    producer.add_dropped(worker + 1);
  };
  write(0, {5, 6, 20});
  write(2, {1, 7, 8});
  PacketStream stream(rings.get(), 3, 0);
  std::vector<int64_t> times;
  while (const auto* packet = stream.take()) times.push_back(packet->record.unix_ns);
  EXPECT_THAT(times, testing::ElementsAre(1, 5, 6, 7, 8, 20));
  EXPECT_EQ(stream.dropped(), 4u);
  EXPECT_FALSE(stream.is_broken());
  rings[1].tail.store(8);
  EXPECT_EQ(stream.take(), nullptr);
  EXPECT_TRUE(stream.is_broken());
}

// The times of packets were then outside of the interval that the statistics name.
TEST(CaptureClockTest, APacketIsInsideTheIntervalThoughTheWallClockWasSetSinceTheDaemonsStart) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  const CaptureClock clock{.begin_unix_ns = FakeSegment::kNowNs, .begin_monotonic_ns = kSecondNs};
  const int64_t daemon_offset_ns =
      clock.begin_unix_ns - clock.begin_monotonic_ns - 3600 * kSecondNs;
  const auto ring = std::make_unique<channel::CaptureRing>();
  channel::CaptureProducer producer(*ring);
  ASSERT_TRUE(producer.try_begin({.unix_ns = 2 * kSecondNs + daemon_offset_ns,
                                  .packet_bytes = 0,
                                  .captured_bytes = 0,
                                  .direction = {},
                                  .reserved = 0}));
  producer.end();
  producer.publish(producer.position());
  PacketStream stream(ring.get(), 1, clock.step_from_ns(daemon_offset_ns));
  const auto* packet = stream.take();
  ASSERT_NE(packet, nullptr);
  EXPECT_EQ(packet->record.unix_ns, clock.begin_unix_ns + kSecondNs);
  EXPECT_LT(packet->record.unix_ns, clock.unix_ns_at(3 * kSecondNs));
}

}  // namespace
}  // namespace lyre::tools
