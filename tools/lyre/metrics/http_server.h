#pragma once

#include <functional>
#include <string>

namespace lyre::tools {

/// Serves /metrics by HTTP until SIGINT or SIGTERM, with one thread. `address`: ADDR:PORT, or the
/// path of a UNIX socket, which has the permissions that the umask leaves and is removed at the
/// end. `text` makes the answer of a scrape; scrapes under way may share one (SharedTexts). The
/// server of prometheus-cpp listens on TCP only and keeps an answer of its own for each scrape.
/// Fails: throws Failure when it cannot listen there.
void serve_metrics(const std::string& address, const std::function<std::string()>& text);

}  // namespace lyre::tools
