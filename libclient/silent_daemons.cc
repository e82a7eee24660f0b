#include "libclient/silent_daemons.h"

#include <functional>

namespace lyre::client {
namespace {

uint64_t name_of(std::string_view path) { return std::hash<std::string_view>{}(path) | 1; }

// Constant-initialised and never destroyed: contexts may be closed while the process exits.
constinit SilentDaemons g_silent_daemons;

}  // namespace

SilentDaemons& silent_daemons() { return g_silent_daemons; }

SilentDaemons::Daemon* SilentDaemons::find(std::string_view path) {
  const uint64_t name = name_of(path);
  for (Daemon& daemon : daemons_) {
    if (daemon.name.load() == name) return &daemon;
  }
  return nullptr;
}

SilentDaemons::Daemon* SilentDaemons::find_or_add(std::string_view path) {
  const uint64_t name = name_of(path);
  for (Daemon& daemon : daemons_) {
    uint64_t found = 0;
    if (daemon.name.compare_exchange_strong(found, name) || found == name) return &daemon;
  }
  return nullptr;
}

int SilentDaemons::patience_ms(std::string_view path, int64_t now_ns) {
  Daemon* const daemon = find(path);
  if (daemon == nullptr) return kPatienceMs;
  const int64_t silent_ns = daemon->silent_ns.load();
  const bool is_silent = silent_ns > daemon->heard_ns.load() && now_ns - silent_ns < kFreshNs;
  return is_silent ? kShortPatienceMs : kPatienceMs;
}

void SilentDaemons::on_answer(std::string_view path, int64_t now_ns) {
  if (Daemon* const daemon = find(path)) daemon->heard_ns.store(now_ns);
}

void SilentDaemons::on_silence(std::string_view path, int64_t asked_ns, int64_t now_ns) {
  Daemon* const daemon = find_or_add(path);
  // Another thread may have had an answer meanwhile.
  if (daemon != nullptr && daemon->heard_ns.load() < asked_ns) daemon->silent_ns.store(now_ns);
}

}  // namespace lyre::client
