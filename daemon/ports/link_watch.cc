#include "daemon/ports/link_watch.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "daemon/base/daemon_limits.h"

namespace lyre {

LinkWatch::LinkWatch(WorkerSet& workers, std::vector<WatchedLink> links)
    : workers_(workers), links_(std::move(links)) {}

Nanos LinkWatch::look() {
  bool are_all_up = true;
  for (size_t i = 0; i < links_.size(); ++i) {
    const WatchedLink& link = links_[i];
    const bool is_up = link.is_up();
    are_all_up = are_all_up && is_up;
    // Relaxed: a lone flag, one writer.
    if (is_up == (link.shown->load(std::memory_order_relaxed) != 0)) continue;
    // A worker whose inbox is full is told at the next poll; the others are told twice.
    if (is_up && !tell_workers(static_cast<uint8_t>(i))) {
      are_all_up = false;
      continue;
    }
    link.shown->store(is_up ? 1 : 0, std::memory_order_relaxed);
    if (is_up && link.on_up) link.on_up();
    spdlog::info("port {}: link is {}", link.name, is_up ? "up" : "down");
  }
  return are_all_up ? kLinkPeriod : kLinkDownPeriod;
}

bool LinkWatch::tell_workers(uint8_t port) {
  const worker::Command news{.kind = worker::Command::Kind::kLinkUp, .port = port};
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    if (!workers_.try_post(i, news)) return false;
  }
  return true;
}

}  // namespace lyre
