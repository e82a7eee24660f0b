#pragma once

#include <functional>
#include <string>

namespace lyre::tools {

/// Serves /metrics by HTTP on a UNIX socket until SIGINT or SIGTERM: the server of prometheus-cpp
/// listens on TCP only. `text` makes the answer of each scrape. The socket has the permissions that
/// the umask leaves, and is removed at the end.
/// Fails: throws Failure when it cannot listen there.
void serve_on_unix_socket(const std::string& path, const std::function<std::string()>& text);

}  // namespace lyre::tools
