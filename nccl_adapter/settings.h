#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "nccl_adapter/abi/telemetry.h"
#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// LYRE_VERBS: whether data goes over queue pairs of RDMA devices.
enum class VerbsUse : uint8_t {
  kAuto,  ///< where both hosts have a device
  kOnly,  ///< nowhere else: without one a process has no network
  kOff,   ///< devices are not looked for
};

/// What the environment asks for. docs/user/nccl.md has the table for users.
struct Settings {
  std::string socket_path;      ///< LYRE_SOCKET; empty: the library's default
  bool is_required = false;     ///< LYRE_REQUIRED, not "0": end the process, do not fall back
  bool is_wanted = false;       ///< is_required, or NCCL_NET=Lyre: a first init waits, too
  int64_t peer_timeout_s = 30;  ///< LYRE_PEER_TIMEOUT_SECONDS: 3..3600
  int64_t resume_s = 10;        ///< LYRE_RESUME_SECONDS: 1..3600
  int64_t handshake_timeout_ms = 5'000;  ///< LYRE_HANDSHAKE_TIMEOUT_MS: 100..600000
  int64_t streams = 0;                   ///< LYRE_STREAMS: 1..64; 0: chosen by port and daemon
  int64_t latency_us = 0;                ///< LYRE_LATENCY_US: 0..100000; 0: NCCL's own figure
  std::string telemetry_directory = nccl_abi::kTelemetryDirectory;  ///< LYRE_TELEMETRY_DIR
  bool uses_all_rails = false;            ///< LYRE_RAILS=all: a comm's streams over every port
  std::vector<std::string> rails;         ///< LYRE_RAILS=NAME,...: these ports only; empty: all
  int64_t verbs_timeout = kVerbsTimeout;  ///< LYRE_VERBS_TIMEOUT: 1..31
  /// LYRE_VERBS_MODE: 1..2, at most. Mode 2 has run over simulated and emulated devices only.
  int64_t verbs_mode = 1;
  bool takes_emulated_verbs = false;  ///< LYRE_VERBS_EMULATED
  /// LYRE_VERBS_DEVICES=NAME,NAME:PORT,...: of these only; empty: of all.
  std::vector<std::string> verbs_devices;
  int64_t verbs_gid_index = -1;  ///< LYRE_VERBS_GID_INDEX: 0..255; -1: the one that fits the peer
  int64_t verbs_traffic_class = 0;  ///< LYRE_VERBS_TRAFFIC_CLASS: 0..255
  int64_t verbs_service_level = 0;  ///< LYRE_VERBS_SERVICE_LEVEL: 0..15
  int64_t verbs_queue_pairs = 1;    ///< LYRE_VERBS_QUEUE_PAIRS: 1..8, of a comm and port
  VerbsUse verbs = VerbsUse::kOff;  ///< until it has run on RDMA hardware
};

/// How long TCP may wait for an acknowledgement: less than the peer may be silent, so that there is
/// time left for other rail pairs.
inline uint32_t silence_ms(const Settings& settings) {
  return static_cast<uint32_t>(settings.peer_timeout_s * 1000 * 2 / 3);
}

/// How long a comm may be without any stream: as long as a daemon may be away.
inline int64_t resume_ns(const Settings& settings) {
  return settings.resume_s * 1'000'000'000 + kResumeMarginNs;
}

/// The same where the peer says nothing at all meanwhile.
inline int64_t patience_ns(const Settings& settings) {
  return std::min(resume_ns(settings), settings.peer_timeout_s * 1'000'000'000);
}

/// Fails: false with a line that names variable, value and what is allowed; `is_required` is right
/// then, too.
bool read_settings(Settings* out);

/// LYRE_SOCKET, or where the daemon listens by default; for messages.
const char* socket_path_text(const Settings& settings);

}  // namespace lyre::nccl_adapter
