#pragma once

#include "stack/channel/versions.h"

namespace lyre::client {

/// Stands in the file of every library, plugin or program that contains the client library. Who
/// looks at the file, and does not run it, finds its release there, and what it speaks. Grows at
/// its end only.
struct ClientMark {
  char magic[16];  ///< kMarkStart and kMarkEnd
  channel::VersionRange control;
  channel::VersionRange abi;
  char release[24];  ///< "0.1.0", zero-terminated
};
static_assert(sizeof(ClientMark) == 48);

/// In two parts: a program that looks for the mark does not have it in one piece.
inline constexpr char kMarkStart[] = "LYRE-CLI";
inline constexpr char kMarkEnd[] = "ENT-MARK";

/// That of this program.
const ClientMark& own_mark();

}  // namespace lyre::client
