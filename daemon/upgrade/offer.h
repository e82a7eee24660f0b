#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "stack/base/mac_address.h"
#include "stack/base/result.h"
#include "stack/record/stream.h"

namespace lyre {

/// What a daemon with this configuration says of itself to the one that comes. `macs`: by port.
void write_offer(const Config& config, std::span<const MacAddress> macs,
                 bool uses_physical_addresses, record::Writer& out);

struct Offer {
  std::string release;
  std::vector<MacAddress> macs;          ///< by port
  bool uses_physical_addresses = false;  ///< of memory, for NICs
};
/// Fails: the records are not right, or one line that says how `config` differs.
Result<Offer> read_offer(const Config& config, std::span<const uint8_t> bytes);

}  // namespace lyre
