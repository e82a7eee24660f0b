#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/config/config.h"

namespace lyre {

enum class KeyType : uint8_t {
  kFlag,       ///< true, false
  kNumber,     ///< an integer from min to max
  kText,       ///< a string of at least min and at most max bytes, printable
  kName,       ///< kText of letters, digits, '_', '-' and '.'
  kPath,       ///< kText that starts with '/'
  kChoice,     ///< one of `choices`, which are separated by '|'
  kMode,       ///< a file mode as an octal string
  kCores,      ///< "auto" or a list of distinct integers from min to max
  kAddress,    ///< "10.9.0.254" or "fd00::fe"
  kGateways,   ///< one of these, or a list with one of each family, or "" for none
  kInterface,  ///< "10.9.0.1/24", a host's address and its network, or a list of such
  kNetwork,    ///< "10.0.0.0/8": no bit set behind the prefix
  kNetworks,   ///< a list of these
  kNumbers,    ///< a list of integers from min to max
  kNames,      ///< a list of kName
};

/// A checked value: flag; number, choice (its position) or mode; text; numbers; addresses; names.
using KeyValue =
    std::variant<bool, int64_t, std::string, std::vector<uint32_t>, IpAddress,
                 std::vector<IpAddress>, Cidr, std::vector<Cidr>, std::vector<std::string>>;

/// Where a value goes: the last port or route is the one being read.
using KeyStore = void (*)(Config& config, const KeyValue& value);

/// One key of the file: the table is the truth for reading, checking, defaults and help.
struct Key {
  std::string_view section;  ///< "workers"; "port", "route" and "domain" are arrays of tables
  std::string_view name;
  KeyType type;
  std::string_view default_toml;  ///< as it stands in TOML; empty: the key must be given
  int64_t min;
  int64_t max;
  std::string_view choices;
  std::string_view help;
  KeyStore store;
};

std::span<const Key> config_keys();

/// What may stand behind the key, in words, for complaints and help.
std::string allowed_text(const Key& key);

}  // namespace lyre
