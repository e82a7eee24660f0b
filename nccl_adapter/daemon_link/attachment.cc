#include "nccl_adapter/daemon_link/attachment.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

std::vector<lyre_port> read_ports(lyre_context* context) {
  std::vector<lyre_port> ports;
  for (int i = 0; i < lyre_port_count(context); ++i) {
    ports.push_back({.struct_bytes = sizeof(lyre_port)});
    lyre_port_info(context, i, &ports.back());
  }
  return ports;
}

const lyre_port* port_named(const std::vector<lyre_port>& all, const std::string& name) {
  const auto it = std::find_if(all.begin(), all.end(),
                               [&name](const lyre_port& port) { return name == port.name; });
  return it != all.end() ? &*it : nullptr;
}

std::vector<lyre_port> choose(const std::vector<lyre_port>& all,
                              const std::vector<std::string>& names) {
  if (names.empty()) return all;
  std::vector<lyre_port> chosen;
  for (const std::string& name : names) {
    if (const lyre_port* port = port_named(all, name)) chosen.push_back(*port);
  }
  return chosen;
}

}  // namespace

std::string wrong_rails(lyre_context* context, const std::vector<std::string>& names) {
  const std::vector<lyre_port> all = read_ports(context);
  std::string wrong;
  for (const std::string& name : names) {
    if (port_named(all, name) != nullptr) continue;
    wrong += (wrong.empty() ? "\"" : ", \"") + name + "\"";
  }
  if (wrong.empty()) return "";
  std::string allowed = "own, all";
  for (const lyre_port& port : all) allowed += std::string(", ") + port.name;
  return "LYRE_RAILS names " + wrong + ", allowed: " + allowed;
}

int Attachment::attach(const Settings& settings, uint64_t patience_ms, lyre_context** out) {
  const lyre_options options{
      .struct_bytes = sizeof options,
      .socket_path = settings.socket_path.empty() ? nullptr : settings.socket_path.c_str(),
      .label = nullptr,
      .arena_bytes = 0,
      .patience_ms = patience_ms};
  const int code = lyre_context_open(&options, out);
  // NCCL's calls come in series: see Instance::wake_workers().
  if (code == 0) lyre_defer_wakeups(*out);
  return code;
}

std::unique_ptr<Attachment> Attachment::open(const Settings& settings, int* failure) {
  lyre_context* context = nullptr;
  *failure = attach(settings, kStartPatienceMs, &context);
  if (*failure != 0) return nullptr;
  return std::unique_ptr<Attachment>(new Attachment(settings, context));
}

Attachment::Attachment(const Settings& settings, lyre_context* context)
    : settings_(settings),
      context_(context),
      ports_(choose(read_ports(context), settings.rails)),
      workers_(lyre_workers(context)) {}

Attachment::~Attachment() { lyre_context_close(context_); }

void Attachment::lose(int64_t now_ns) {
  lose_again("no attempt was made yet");
  lost_ns_ = now_ns;
  looked_ns_ = 0;
}

void Attachment::lose_again(std::string why) {
  failure_ = std::move(why);
  lyre_context_close(std::exchange(context_, nullptr));
}

bool Attachment::find(int64_t now_ns) {
  if (now_ns - looked_ns_ < kReattachNs) return false;
  looked_ns_ = now_ns;
  if (attach(settings_, kFindPatienceMs, &context_) != 0) {
    failure_ = lyre_last_error();
    return false;
  }
  return true;
}

bool Attachment::is_given_up(int64_t now_ns) const {
  return now_ns - lost_ns_ > settings_.resume_s * kNsPerSecond;
}

}  // namespace lyre::nccl_adapter
