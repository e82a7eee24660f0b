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
/// them. `least`: the versions that a reader of its records has to know.
void write_offer(const Config& config, std::span<const PortRecord> ports,
                 bool uses_physical_addresses, const KindVersions& least, record::Writer& out);

struct Offer {
  std::string release;
  std::vector<PortRecord> ports;         ///< in the order of the configuration
  bool uses_physical_addresses = false;  ///< of memory, for NICs
};
/// How many workers the other daemon has. `newest`: the versions that this daemon reads.
/// Fails: the records are not right, or EPROTONOSUPPORT the other daemon writes later ones.
Result<uint32_t> offered_workers(std::span<const uint8_t> bytes, const KindVersions& newest);
/// Fails: as offered_workers(), or one line that says how `config` differs.
Result<Offer> read_offer(const Config& config, std::span<const uint8_t> bytes,
                         const KindVersions& newest);

/// What the daemon that comes says of itself. `newest`: the versions that it reads.
void write_prepared(const KindVersions& newest, record::Writer& out);
/// The release of the daemon that comes. Fails: the record is not right, or EPROTONOSUPPORT it does
/// not read what has these versions.
Result<std::string> read_prepared(std::span<const uint8_t> bytes, const KindVersions& least);

}  // namespace lyre
