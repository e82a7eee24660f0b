#include "tools/lyre/pcap/pcapng.h"

#include <string_view>
#include <utility>

namespace lyre::tools::pcapng {
namespace {

// Block types (section 4), and the codes of their options.
constexpr uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr uint32_t kInterfaceDescription = 1;
constexpr uint32_t kInterfaceStatistics = 5;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint16_t kEndOfOptions = 0;
constexpr uint16_t kUserApplication = 4;  // of a section
constexpr uint16_t kInterfaceName = 2;    // of an interface
constexpr uint16_t kTimeResolution = 9;
constexpr uint16_t kInterfaceFilter = 11;
constexpr uint16_t kPacketFlags = 2;  // of a packet
constexpr uint16_t kStartTime = 2;    // of statistics
constexpr uint16_t kEndTime = 3;
constexpr uint16_t kReceivedCount = 4;
constexpr uint16_t kDroppedCount = 5;
constexpr uint16_t kAcceptedCount = 6;
constexpr uint16_t kDeliveredCount = 8;

constexpr uint16_t kLinkTypeEthernet = 1;
constexpr uint8_t kNanoseconds = 9;  ///< 10^-9 s
constexpr uint8_t kFilterIsText = 0;

/// A block under construction: type and length, its body in pieces of whole 32-bit words, and the
/// length again.
class Block {
 public:
  explicit Block(uint32_t type) {
    add(type);
    add(uint32_t{0});  // the length, which finish() sets
  }

  template <typename Value>
  void add(Value value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add_padded(std::string_view bytes) {
    bytes_.append(bytes);
    bytes_.resize((bytes_.size() + 3) & ~size_t{3});
  }
  /// The high half comes first, whatever the byte order.
  void add_time(int64_t unix_ns) {
    add(static_cast<uint32_t>(static_cast<uint64_t>(unix_ns) >> 32));
    add(static_cast<uint32_t>(unix_ns));
  }
  void add_option(uint16_t code, std::string_view value) {
    add(code);
    add(static_cast<uint16_t>(value.size()));
    add_padded(value);
  }
  template <typename Value>
  void add_number(uint16_t code, Value value) {
    add_option(code, {reinterpret_cast<const char*>(&value), sizeof value});
  }
  void add_time_option(uint16_t code, int64_t unix_ns) {
    add(code);
    add(uint16_t{8});
    add_time(unix_ns);
  }
  std::string finish() {
    add_option(kEndOfOptions, {});
    const auto length = static_cast<uint32_t>(bytes_.size() + sizeof(uint32_t));
    bytes_.replace(sizeof(uint32_t), sizeof length, reinterpret_cast<const char*>(&length),
                   sizeof length);
    add(length);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

}  // namespace

std::string section_header(const std::string& application) {
  Block block(kSectionHeader);
  block.add(uint32_t{0x1a2b3c4d});  // the byte order
  block.add(uint16_t{1});           // version 1.0
  block.add(uint16_t{0});
  block.add(int64_t{-1});  // the length of the section is not known yet
  block.add_option(kUserApplication, application);
  return block.finish();
}

std::string interface_description(const Interface& interface) {
  Block block(kInterfaceDescription);
  block.add(kLinkTypeEthernet);
  block.add(uint16_t{0});
  block.add(interface.snap_bytes);
  block.add_option(kInterfaceName, interface.name);
  block.add_number(kTimeResolution, kNanoseconds);
  if (!interface.filter.empty()) {
    block.add_option(kInterfaceFilter, std::string(1, kFilterIsText) + interface.filter);
  }
  return block.finish();
}

std::string enhanced_packet(const PacketInfo& info, std::span<const uint8_t> bytes) {
  Block block(kEnhancedPacket);
  block.add(uint32_t{0});  // the first interface
  block.add_time(info.unix_ns);
  block.add(static_cast<uint32_t>(bytes.size()));
  block.add(info.packet_bytes);
  block.add_padded({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  block.add_number(kPacketFlags, static_cast<uint32_t>(info.direction));
  return block.finish();
}

std::string interface_statistics(const Statistics& statistics) {
  Block block(kInterfaceStatistics);
  block.add(uint32_t{0});
  block.add_time(statistics.end_unix_ns);
  block.add_time_option(kStartTime, statistics.begin_unix_ns);
  block.add_time_option(kEndTime, statistics.end_unix_ns);
  block.add_number(kReceivedCount, statistics.received);
  block.add_number(kDroppedCount, statistics.dropped);
  block.add_number(kAcceptedCount, statistics.accepted);
  block.add_number(kDeliveredCount, statistics.accepted);
  return block.finish();
}

}  // namespace lyre::tools::pcapng
