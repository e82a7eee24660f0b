#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/protocol/handover_records.h"
#include "stack/base/result.h"
#include "stack/record/stream.h"

namespace lyre {

/// What a daemon with this configuration says of itself to the one that comes. `ports`: all of
/// them.
void write_offer(const Config& config, std::span<const PortRecord> ports,
                 bool uses_physical_addresses, record::Writer& out);

struct Offer {
  std::string release;
  std::vector<PortRecord> ports;         ///< in the order of the configuration
  bool uses_physical_addresses = false;  ///< of memory, for NICs
};
/// How many workers the other daemon has. Fails: the records are not right.
Result<uint32_t> offered_workers(std::span<const uint8_t> bytes);
/// Fails: the records are not right, or one line that says how `config` differs.
Result<Offer> read_offer(const Config& config, std::span<const uint8_t> bytes);

}  // namespace lyre
