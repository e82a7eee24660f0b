#include "nccl_adapter/settings.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"

namespace lyre::nccl_adapter {
namespace {

constexpr const char* kDefaultSocketPath = "/run/lyre/lyred.sock";

const char* get(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

struct Range {
  int64_t min;
  int64_t max;
};

bool read_integer(const char* name, Range range, int64_t* out) {
  const char* text = get(name);
  if (text == nullptr) return true;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  if (errno == 0 && *end == '\0' && value >= range.min && value <= range.max) {
    *out = value;
    return true;
  }
  log_warn("%s is \"%s\": allowed are whole numbers from %lld to %lld", name, text,
           static_cast<long long>(range.min), static_cast<long long>(range.max));
  return false;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> names;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    if (comma > from) names.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return names;
}

// "own", "all", port names, or "all," and port names.
void read_rails(Settings* out) {
  const char* text = get("LYRE_RAILS");
  if (text == nullptr) return;
  for (std::string& name : split(text)) {
    if (name == "all") {
      out->uses_all_rails = true;
    } else if (name != "own" &&
               std::find(out->rails.begin(), out->rails.end(), name) == out->rails.end()) {
      out->rails.push_back(std::move(name));  // named twice it is one device all the same
    }
  }
}

bool read_verbs_use(VerbsUse* out) {
  const std::string_view text = get("LYRE_VERBS") != nullptr ? get("LYRE_VERBS") : "off";
  if (text == "auto") {
    *out = VerbsUse::kAuto;
  } else if (text == "only") {
    *out = VerbsUse::kOnly;
  } else if (text == "off") {
    *out = VerbsUse::kOff;
  } else {
    log_warn("LYRE_VERBS is \"%s\": allowed are auto, only and off", std::string(text).c_str());
    return false;
  }
  return true;
}

bool read_verbs(Settings* out) {
  const char* emulated = get("LYRE_VERBS_EMULATED");
  out->takes_emulated_verbs = emulated != nullptr && std::strcmp(emulated, "0") != 0;
  if (const char* names = get("LYRE_VERBS_DEVICES")) out->verbs_devices = split(names);
  constexpr int64_t kQueuePairs = kQueuePairsMax;
  return read_verbs_use(&out->verbs) &&
         read_integer("LYRE_VERBS_TIMEOUT", {1, 31}, &out->verbs_timeout) &&
         read_integer("LYRE_VERBS_GID_INDEX", {0, 255}, &out->verbs_gid_index) &&
         read_integer("LYRE_VERBS_TRAFFIC_CLASS", {0, 255}, &out->verbs_traffic_class) &&
         read_integer("LYRE_VERBS_SERVICE_LEVEL", {0, 15}, &out->verbs_service_level) &&
         read_integer("LYRE_VERBS_QUEUE_PAIRS", {1, kQueuePairs}, &out->verbs_queue_pairs);
}

}  // namespace

bool read_settings(Settings* out) {
  if (const char* path = get("LYRE_SOCKET")) out->socket_path = path;
  // First, because it also decides what an unusable setting below leads to. "yes", "true" and typos
  // mean yes: falling back silently is what this variable exists to prevent.
  const char* required = get("LYRE_REQUIRED");
  out->is_required = required != nullptr && std::strcmp(required, "0") != 0;
  out->is_wanted = out->is_required || nccl_abi::names_lyre(get("NCCL_NET"));
  if (const char* path = get("LYRE_TELEMETRY_DIR")) out->telemetry_directory = path;
  read_rails(out);
  return read_verbs(out) && read_integer("LYRE_VERBS_MODE", {1, 2}, &out->verbs_mode) &&
         read_integer("LYRE_PEER_TIMEOUT_SECONDS", {3, 3600}, &out->peer_timeout_s) &&
         read_integer("LYRE_RESUME_SECONDS", {1, 3600}, &out->resume_s) &&
         read_integer("LYRE_LATENCY_US", {0, 100'000}, &out->latency_us) &&
         read_integer("LYRE_STREAMS", {1, kStreamsMax}, &out->streams) &&
         read_integer("LYRE_HANDSHAKE_TIMEOUT_MS", {100, 600'000}, &out->handshake_timeout_ms);
}

const char* socket_path_text(const Settings& settings) {
  return settings.socket_path.empty() ? kDefaultSocketPath : settings.socket_path.c_str();
}

}  // namespace lyre::nccl_adapter
