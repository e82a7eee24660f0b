#include "tools/lyre/value_checks.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/size_text.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string refusal(const std::string& value, const char* kind, const std::string& least,
                    const std::string& most) {
  return "'" + value + "' is not " + kind + " from " + least + " to " + most;
}

}  // namespace

CLI::Validator size_between(uint64_t least, uint64_t most) {
  const auto check = [least, most](std::string& value) -> std::string {
    const std::optional<uint64_t> bytes = parse_size(value);
    if (!bytes || *bytes < least || *bytes > most) {
      return refusal(value, "a size", size_text(least), size_text(most)) + ", as 65536 or 4MiB";
    }
    value = std::to_string(*bytes);
    return "";
  };
  return CLI::Validator(check, "SIZE");
}

CLI::Validator count_between(uint64_t least, uint64_t most) {
  const auto check = [least, most](std::string& value) -> std::string {
    uint64_t count = 0;
    const char* end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, count);
    if (error == std::errc() && at == end && count >= least && count <= most) return "";
    return refusal(value, "a whole number", std::to_string(least), std::to_string(most));
  };
  return CLI::Validator(check, "");
}

CLI::Validator peer_address() {
  const auto check = [](std::string& value) -> std::string {
    lyre_addr peer{};
    if (value.starts_with(':') || lyre_addr_parse(value.c_str(), &peer) != 0) {
      return "'" + value + "' is not an address, as 10.9.0.2, 10.9.0.2:5201 or [fd00::2]:5201";
    }
    value =
        peer.port == 0 ? format_address(peer.address) : format_endpoint(peer.address, peer.port);
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator seconds_between(double least, double most) {
  const auto check = [least, most](std::string& value) -> std::string {
    double seconds = 0;
    const char* end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, seconds);
    const bool is_number = error == std::errc() && at == end && std::isfinite(seconds);
    if (is_number && seconds >= least && seconds <= most) return "";
    return refusal(value, "a number of seconds", short_text(least), short_text(most));
  };
  return CLI::Validator(check, "");
}

}  // namespace lyre::tools
