// An untrusted configuration file: it is refused with a reason, or a daemon could start with it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = lyre::parse_config(text, "lyred.toml");
  if (!config.ok()) {
    if (config.error().text.empty()) std::abort();
    return 0;
  }
  if (config.value().file != "lyred.toml") std::abort();
  return 0;
}
