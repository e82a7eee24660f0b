#include "tests/conformance/stack_options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace lyre::conformance {

namespace {

constexpr uint8_t kQuickAcks = 16;

struct Setting {
  std::string name;
  std::string value;
};

using Apply = std::function<bool(const std::string& value, StackOptions& options)>;

bool read_number(std::string_view text, int64_t& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

/// Reads the middle one of three numbers: a buffer's initial size.
bool read_middle_number(std::string_view text, int64_t& out) {
  const size_t first = text.find_first_of(" \t");
  const size_t start = text.find_first_not_of(" \t", first);
  if (first == std::string_view::npos || start == std::string_view::npos) {
    return read_number(text, out);
  }
  const size_t end = std::min(text.find_first_of(" \t", start), text.size());
  return read_number(text.substr(start, end - start), out);
}

/// Reads the last of three numbers: a buffer's maximum size.
bool read_last_number(std::string_view text, int64_t& out) {
  const size_t end = text.find_last_not_of(" \t");
  if (end == std::string_view::npos) return false;
  const size_t start = text.find_last_of(" \t", end);
  return read_number(text.substr(start == std::string_view::npos ? 0 : start + 1,
                                 end - (start == std::string_view::npos ? 0 : start + 1) + 1),
                     out);
}

Apply number(std::function<void(int64_t, StackOptions&)> set) {
  return [set](const std::string& value, StackOptions& options) {
    int64_t parsed = 0;
    if (!read_number(value, parsed) || parsed < 0) return false;
    set(parsed, options);
    return true;
  };
}

Apply middle_number(std::function<void(int64_t, StackOptions&)> set) {
  return [set](const std::string& value, StackOptions& options) {
    int64_t parsed = 0;
    if (!read_middle_number(value, parsed) || parsed < 0) return false;
    set(parsed, options);
    return true;
  };
}

Apply last_number(std::function<void(int64_t, StackOptions&)> set) {
  return [set](const std::string& value, StackOptions& options) {
    int64_t parsed = 0;
    if (!read_last_number(value, parsed) || parsed < 0) return false;
    set(parsed, options);
    return true;
  };
}

bool set_congestion(const std::string& name, StackOptions& options) {
  if (name == "cubic") {
    options.connection.congestion = tcp::CongestionAlgorithm::kCubic;
  } else if (name == "reno" || name == "newreno") {
    options.connection.congestion = tcp::CongestionAlgorithm::kNewReno;
  } else if (name == "dctcp") {
    options.connection.congestion = tcp::CongestionAlgorithm::kDctcp;
  } else {
    return false;
  }
  return true;
}

bool set_local_v4(const std::string& text, StackOptions& options) {
  uint32_t address = 0;
  std::string_view rest = text;
  for (int i = 0; i < 4; ++i) {
    const size_t dot = i < 3 ? rest.find('.') : rest.size();
    int64_t part = 0;
    if (dot == std::string_view::npos || !read_number(rest.substr(0, dot), part)) return false;
    if (part < 0 || part > 255) return false;
    address = address << 8 | static_cast<uint32_t>(part);
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  options.local_v4 = IpAddress::v4(address);
  return true;
}

uint32_t to_u32(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, INT32_MAX));
}

const std::map<std::string, Apply, std::less<>> kSettings = {
    {"seed", number([](int64_t v, StackOptions& o) { o.seed = static_cast<uint64_t>(v); })},
    {"mtu", number([](int64_t v, StackOptions& o) { o.mtu_bytes = to_u32(v); })},
    {"local_ip", set_local_v4},
    {"tcp_syncookies", number([](int64_t v, StackOptions& o) {
       o.syn_cookies = v == 0   ? SynCookies::kNever
                       : v == 1 ? SynCookies::kUnderPressure
                                : SynCookies::kAlways;
     })},
    {"somaxconn", number([](int64_t v, StackOptions& o) { o.backlog_max = to_u32(v); })},
    {"tcp_timestamps",
     number([](int64_t v, StackOptions& o) { o.connection.timestamps = v != 0; })},
    {"tcp_sack", number([](int64_t v, StackOptions& o) { o.connection.sack = v != 0; })},
    {"tcp_window_scaling",
     number([](int64_t v, StackOptions& o) { o.connection.window_scaling = v != 0; })},
    {"tcp_rmem", last_number([](int64_t v, StackOptions& o) {
       o.connection.receive_buffer_bytes = to_u32(v);
     })},
    {"tcp_wmem",
     middle_number([](int64_t v, StackOptions& o) { o.connection.send_buffer_bytes = to_u32(v); })},
    {"tcp_congestion_control", set_congestion},
    {"tcp_fin_timeout",
     number([](int64_t v, StackOptions& o) { o.connection.orphan_timeout_ms = to_u32(1000 * v); })},
    {"tcp_keepalive_time",
     number([](int64_t v, StackOptions& o) { o.connection.keepalive_idle_ms = to_u32(1000 * v); })},
    {"tcp_min_tso_segs",
     number([](int64_t v, StackOptions& o) { o.tso_segments = to_u32(std::max<int64_t>(v, 1)); })},
    {"tcp_ecn", number([](int64_t v, StackOptions& o) {
       o.connection.ecn = v == 0   ? tcp::EcnMode::kOff
                          : v == 1 ? tcp::EcnMode::kOn
                                   : tcp::EcnMode::kAccept;
     })},
    {"tcp_keepalive_intvl", number([](int64_t v, StackOptions& o) {
       o.connection.keepalive_interval_ms = to_u32(1000 * v);
     })},
    {"tcp_keepalive_probes", number([](int64_t v, StackOptions& o) {
       o.connection.keepalive_count = static_cast<uint8_t>(std::min<int64_t>(v, UINT8_MAX));
     })},
    {"tcp_max_syn_backlog",
     number([](int64_t v, StackOptions& o) { o.embryonic_max = to_u32(v); })},
    {"tcp_invalid_ratelimit",
     number([](int64_t v, StackOptions& o) { o.connection.limits_challenges = v != 0; })},
    {"quickack", number([](int64_t v, StackOptions& o) {
       o.connection.quick_acks_at_start = v != 0 ? kQuickAcks : uint8_t{0};
     })},
    {"user_timeout_ms",
     number([](int64_t v, StackOptions& o) { o.connection.user_timeout_ms = to_u32(v); })},
    {"time_wait_ms",
     number([](int64_t v, StackOptions& o) { o.connection.time_wait_ms = to_u32(v); })},
    {"nagle", number([](int64_t v, StackOptions& o) { o.connection.nagle = v != 0; })},
    {"ack_delay_ms", number([](int64_t v, StackOptions& o) {
       o.connection.ack_delay_ms = static_cast<uint16_t>(v);
     })},
    {"rto_min_ms",
     number([](int64_t v, StackOptions& o) { o.connection.rto_min_us = to_u32(1000 * v); })},
    {"tcp_rto_min_us",
     number([](int64_t v, StackOptions& o) { o.connection.rto_min_us = to_u32(v); })},
};

/// A Linux name without its prefix; empty when `name` has none.
std::string_view without_folder(std::string_view name) {
  for (const std::string_view folder : {"net.ipv4.", "net.ipv6.", "net.core."}) {
    if (name.substr(0, folder.size()) == folder) return name.substr(folder.size());
  }
  return {};
}

std::string apply_setting(const Setting& setting, StackOptions& options) {
  const std::string_view linux_name = without_folder(setting.name);
  const std::string_view name = linux_name.empty() ? std::string_view(setting.name) : linux_name;
  const auto found = kSettings.find(name);
  if (found == kSettings.end()) {
    return linux_name.empty() ? "unknown flag '" + setting.name + "'" : std::string();
  }
  if (found->second(setting.value, options)) return {};
  return "flag '" + setting.name + "' cannot be '" + setting.value + "'";
}

bool is_divider(char c) { return c == ',' || c == ';' || c == ' ' || c == '\t' || c == '\n'; }

std::vector<Setting> split(std::string_view text) {
  std::vector<Setting> out;
  size_t at = 0;
  while (at < text.size()) {
    if (is_divider(text[at])) {
      ++at;
      continue;
    }
    Setting setting;
    while (at < text.size() && text[at] != '=' && !is_divider(text[at])) {
      setting.name += text[at++];
    }
    if (at < text.size() && text[at] == '=') {
      ++at;
      const bool is_quoted = at < text.size() && (text[at] == '"' || text[at] == '\'');
      const char quote = is_quoted ? text[at++] : '\0';
      while (at < text.size() && (is_quoted ? text[at] != quote : !is_divider(text[at]))) {
        setting.value += text[at++];
      }
      if (is_quoted) ++at;
    }
    out.push_back(setting);
  }
  return out;
}

/// The settings that a line of a script makes.
std::vector<Setting> settings_of_line(std::string_view line) {
  constexpr std::string_view kConfig = "//@config:";
  constexpr std::string_view kMtu = "--mtu=";
  const size_t start = line.find_first_not_of(" \t");
  if (start == std::string_view::npos) return {};
  line.remove_prefix(start);
  if (line.substr(0, kConfig.size()) == kConfig) return split(line.substr(kConfig.size()));
  if (line.substr(0, kMtu.size()) == kMtu) return split(line.substr(2));
  const size_t sysctl = line.find("net.");
  if (line.find("sysctl") == std::string_view::npos || sysctl == std::string_view::npos) return {};
  const size_t end = line.find_first_of("`", sysctl);
  return split(line.substr(sysctl, end == std::string_view::npos ? end : end - sysctl));
}

}  // namespace

StackOptions::StackOptions() {
  constexpr uint8_t kLocalV6[16] = {0xfd, 0x3d, 0x0a, 0x0b, 0x17, 0xd6, 0, 0,
                                    0,    0,    0,    0,    0,    0,    0, 1};
  std::copy(std::begin(kLocalV6), std::end(kLocalV6), local_v6.bytes.begin());
  connection.receive_buffer_bytes = 8 << 20;
  connection.slot_bytes = mtu_bytes;
  connection.nagle = true;
  connection.user_timeout_ms = 925'000;     // Linux's 15 doublings of 200 ms
  connection.connect_timeout_ms = 127'000;  // and its 6 SYNs again
  connection.syn_received_timeout_s = 127;
}

tcp::ConnectionConfig fit_mss(const tcp::ConnectionConfig& wanted, uint32_t mtu_bytes,
                              const IpAddress& peer) {
  constexpr uint32_t kHeaderBytesV4 = 40;  // IP and TCP, without options (RFC 6691)
  constexpr uint32_t kHeaderBytesV6 = 60;
  tcp::ConnectionConfig config = wanted;
  const auto fits =
      static_cast<uint16_t>(mtu_bytes - (peer.is_v4() ? kHeaderBytesV4 : kHeaderBytesV6));
  config.mss_bytes = std::min(config.mss_bytes, fits);
  return config;
}

std::string apply_flags(std::string_view text, StackOptions& options) {
  for (const Setting& setting : split(text)) {
    if (auto wrong = apply_setting(setting, options); !wrong.empty()) return wrong;
  }
  return {};
}

void apply_script(std::string_view script, StackOptions& options) {
  std::set<std::string> seen;
  while (!script.empty()) {
    const size_t end = std::min(script.find('\n'), script.size());
    for (const Setting& setting : settings_of_line(script.substr(0, end))) {
      if (!seen.insert(setting.name).second) continue;
      apply_setting(setting, options);  // a setting for another kind of host is ignored
    }
    script.remove_prefix(std::min(end + 1, script.size()));
  }
}

}  // namespace lyre::conformance
