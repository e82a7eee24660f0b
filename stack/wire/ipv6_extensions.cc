#include "stack/wire/bytes.h"
#include "stack/wire/ipv6.h"

namespace lyre::wire {
namespace {

constexpr uint8_t kHopByHop = 0;
constexpr uint8_t kRouting = 43;
constexpr uint8_t kFragment = 44;
constexpr uint8_t kDestinationOptions = 60;

constexpr uint8_t kOptionPad1 = 0;
constexpr uint8_t kOptionPadN = 1;

/// One pass over the extension headers of one packet.
class Walk {
 public:
  explicit Walk(std::span<const uint8_t> packet) : packet_(packet) {
    upper_.protocol_at = 6;
    upper_.offset_bytes = kIpv6HeaderBytes;
    upper_.protocol = packet[upper_.protocol_at];
  }

  /// Returns false when the packet is refused; `drop` and `problem` then hold the reason.
  bool run() {
    for (uint32_t count = 0; is_extension(upper_.protocol); ++count) {
      if (count == kExtensionHeadersMax) return refuse();
      // RFC 8200 4.1: hop-by-hop options come first; elsewhere they are an unrecognised header.
      if (upper_.protocol == kHopByHop && count > 0)
        return tell({kProblemNextHeader, false, upper_.protocol_at});
      if (!step()) return false;
    }
    return true;
  }

  const UpperLayer& upper() const { return upper_; }
  Drop drop() const { return drop_; }
  const std::optional<ParameterProblem>& problem() const { return problem_; }

 private:
  static bool is_extension(uint8_t protocol) {
    return protocol == kHopByHop || protocol == kRouting || protocol == kFragment ||
           protocol == kDestinationOptions;
  }

  bool refuse(Drop reason = Drop::kIpBadExtension) {
    drop_ = reason;
    return false;
  }
  bool tell(const ParameterProblem& problem) {
    problem_ = problem;
    return refuse();
  }

  bool step() {
    const uint32_t at = upper_.offset_bytes;
    if (packet_.size() < size_t{at} + 8) return refuse();
    const bool is_fragment = upper_.protocol == kFragment;
    const uint32_t bytes = is_fragment ? 8 : (packet_[at + 1] + 1u) * 8;
    if (packet_.size() < size_t{at} + bytes) return refuse();
    if (is_fragment && !check_fragment(at)) return false;
    if (upper_.protocol == kRouting && !check_routing(at)) return false;
    const bool has_options = upper_.protocol == kHopByHop || upper_.protocol == kDestinationOptions;
    if (has_options && !check_options(at + 2, at + bytes)) return false;
    upper_.protocol = packet_[at];
    upper_.protocol_at = at;
    upper_.offset_bytes = at + bytes;
    return true;
  }

  /// RFC 6946 4: an atomic fragment (offset 0, no more fragments) is processed as a whole packet.
  bool check_fragment(uint32_t at) {
    constexpr uint16_t kOffsetAndMore = 0xfff9;
    upper_.had_fragment_header = true;
    const bool is_whole = (read_be16(packet_.data() + at + 2) & kOffsetAndMore) == 0;
    return is_whole || refuse(Drop::kIpFragment);
  }

  /// RFC 8200 4.4: no routing type is supported (RFC 5095 deprecated type 0). The packet is refused
  /// unless segments left is 0.
  bool check_routing(uint32_t at) {
    return packet_[at + 3] == 0 || tell({kProblemHeaderField, false, at + 2});
  }

  bool check_options(uint32_t at, uint32_t end) {
    while (at < end) {
      if (++options_ > kExtensionOptionsMax) return refuse();
      const uint8_t type = packet_[at];
      if (type == kOptionPad1) {
        ++at;
        continue;
      }
      if (at + 2 > end || at + 2u + packet_[at + 1] > end) return refuse();
      if (type != kOptionPadN && !check_unknown(type, at)) return false;
      at += 2u + packet_[at + 1];
    }
    return true;
  }

  /// RFC 8200 4.2: the two highest bits of an unknown option's type select what happens to the
  /// packet.
  bool check_unknown(uint8_t type, uint32_t at) {
    switch (type >> 6) {
      case 0:
        return true;
      case 1:
        return refuse();
      case 2:
        return tell({kProblemOption, true, at});
      default:
        return tell({kProblemOption, false, at});
    }
  }

  std::span<const uint8_t> packet_;
  UpperLayer upper_;
  uint32_t options_ = 0;
  Drop drop_ = Drop::kIpBadExtension;
  std::optional<ParameterProblem> problem_;
};

}  // namespace

std::optional<UpperLayer> skip_extensions(std::span<const uint8_t> packet, Drop& drop,
                                          std::optional<ParameterProblem>& problem) {
  Walk walk(packet);
  if (walk.run()) return walk.upper();
  drop = walk.drop();
  problem = walk.problem();
  return std::nullopt;
}

}  // namespace lyre::wire
