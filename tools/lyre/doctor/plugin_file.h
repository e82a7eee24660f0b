#pragma once

#include <optional>
#include <string>

#include "libclient/client_mark.h"
#include "tools/lyre/doctor/finding.h"

namespace lyre::tools {

/// What the file of a plugin or library says of itself, which is not run for that. None: the file
/// cannot be read, is not a regular file, or does not contain Lyre's client library.
std::optional<client::ClientMark> mark_in(const std::string& file);

/// Whether a plugin of that release speaks with the daemon of this one. `path` names it.
Finding check_plugin_release(const std::string& path, const client::ClientMark& mark);

}  // namespace lyre::tools
