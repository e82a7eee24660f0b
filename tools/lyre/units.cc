#include "tools/lyre/units.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "libclient/include/lyre/lyre.h"

namespace lyre::tools {
namespace {

/// Three significant digits and a unit.
std::string with_unit(double value, const char* unit) {
  char text[64];
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f %s", decimals, value, unit);
  return text;
}

std::string format_long_duration(int64_t seconds) {
  char text[64];
  if (seconds >= 86400) {
    std::snprintf(text, sizeof text, "%" PRId64 "d %02" PRId64 "h", seconds / 86400,
                  seconds % 86400 / 3600);
  } else if (seconds >= 3600) {
    std::snprintf(text, sizeof text, "%" PRId64 "h %02" PRId64 "m", seconds / 3600,
                  seconds % 3600 / 60);
  } else {
    std::snprintf(text, sizeof text, "%" PRId64 "m %02" PRId64 "s", seconds / 60, seconds % 60);
  }
  return text;
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return with_unit(value, kUnits[unit]);
}

std::string format_rate(double bits_per_second) {
  constexpr std::array<const char*, 5> kUnits = {"b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"};
  if (bits_per_second < 0.5) return "0 b/s";
  size_t unit = 0;
  while (bits_per_second >= 999.5 && unit + 1 < kUnits.size()) {
    bits_per_second /= 1000;
    ++unit;
  }
  return with_unit(bits_per_second, kUnits[unit]);
}

std::string format_duration(int64_t duration_ns) {
  if (duration_ns < 1000) return std::to_string(duration_ns) + " ns";
  const auto value = static_cast<double>(duration_ns);
  if (duration_ns < 1'000'000) return with_unit(value / 1e3, "us");
  if (duration_ns < 1'000'000'000) return with_unit(value / 1e6, "ms");
  if (duration_ns < 60'000'000'000) return with_unit(value / 1e9, "s");
  return format_long_duration(duration_ns / 1'000'000'000);
}

std::string format_endpoint(const uint8_t (&address)[16], uint16_t port) {
  lyre_addr addr{};
  std::memcpy(addr.address, address, sizeof addr.address);
  addr.port = port;
  char text[64] = "";
  lyre_addr_format(&addr, text, sizeof text);
  return text;
}

std::string format_time(int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%F %T", &local));
}

std::string format_address(const uint8_t (&address)[16]) {
  const std::string text = format_endpoint(address, 0);
  const std::string host = text.substr(0, text.rfind(':'));
  return host.front() == '[' ? host.substr(1, host.size() - 2) : host;
}

}  // namespace lyre::tools
