#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/protocol/handover_records.h"
#include "stack/record/stream.h"
#include "stack/tcp/connection_fields.h"
#include "stack/worker/handover_records.h"

namespace lyre {

/// The version of this kind that this release writes, and the newest that it reads. 0: there is no
/// such kind.
constexpr uint16_t handover_version(record::Kind kind) {
  using enum record::Kind;
  switch (kind) {
    case kNone:
      return 0;
    case kWorker:
    case kContext:
    case kLoan:
    case kCopyBlock:
    case kLeaving:
    case kListener:
    case kSession:
    case kPiece:
    case kReceived:
    case kFailedOpen:
    case kEnd:
      return worker::kHandoverVersion;
    case kConnection:
      return tcp::kConnectionRecordVersion;
    case kSent:
      return tcp::kSentRecordVersion;
    case kUndo:
      return tcp::kUndoRecordVersion;
    case kDaemon:
    case kPort:
    case kSocket:
    case kPrepared:
      return kOfferVersion;
    case kRegistry:
    case kClient:
    case kRegion:
    case kAttached:
    case kLeftMemory:
      return kDaemonHandoverVersion;
  }
  return 0;
}
static_assert(handover_version(record::Kind{record::kKindsEnd - 1}) > 0);
static_assert(handover_version(record::Kind{record::kKindsEnd}) == 0);

/// handover_version() of each kind.
inline KindVersions handover_versions() {
  KindVersions out;
  for (uint16_t kind = 0; kind < record::kKindsEnd; ++kind) {
    out.push_back(handover_version(record::Kind{kind}));
  }
  return out;
}

/// The first records of each side, which are read in every version.
inline constexpr record::Kind kOfferKinds[] = {record::Kind::kDaemon, record::Kind::kPort,
                                               record::Kind::kSocket, record::Kind::kPrepared};

/// What a reader has to know of each kind that this release writes.
inline KindVersions least_versions() {
  KindVersions out = handover_versions();
  for (const record::Kind kind : kOfferKinds) out[static_cast<size_t>(kind)] = 1;
  return out;
}

}  // namespace lyre
