#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/control/control_server.h"

namespace lyre {

/// All control sockets of the daemon: one for each domain, and the administrator's.
/// Thread: the control thread.
class ControlServers {
 public:
  void add(std::unique_ptr<ControlServer> server) { servers_.push_back(std::move(server)); }

  size_t count() const { return servers_.size(); }
  ControlServer& operator[](size_t index) { return *servers_[index]; }
  /// From now on, the requests for it are served: at the administrator's socket, which is the last,
  /// or the only one.
  void serve_upgrades(Upgrade upgrade) { servers_.back()->serve_upgrades(std::move(upgrade)); }
  bool has_pending_requests() const {
    return std::any_of(servers_.begin(), servers_.end(),
                       [](const auto& server) { return server->has_pending_requests(); });
  }
  void say_goodbyes(bool only_due) {
    for (const auto& server : servers_) server->say_goodbyes(only_due);
  }
  void hold_memory_requests(bool is_held) {
    for (const auto& server : servers_) server->hold_memory_requests(is_held);
  }
  /// Fails: as ControlServer::open(), for the first that cannot be opened.
  Status open() {
    for (const auto& server : servers_) {
      if (Status status = server->open(); !status.ok()) return status;
    }
    return Ok{};
  }
  void stop_accepting() {
    for (const auto& server : servers_) server->stop_accepting();
  }
  void hang_up_all() {
    for (const auto& server : servers_) server->hang_up_all();
  }
  /// Of these, one server at most has the context.
  void expel(const Expulsion& expulsion) {
    for (const auto& server : servers_) server->expel(expulsion);
  }
  void on_detached(uint32_t context) {
    for (const auto& server : servers_) server->on_detached(context);
  }
  void answer(const RegionAnswer& answer) {
    for (const auto& server : servers_) server->answer(answer);
  }

 private:
  std::vector<std::unique_ptr<ControlServer>> servers_;
};

}  // namespace lyre
