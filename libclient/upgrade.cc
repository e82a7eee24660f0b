#include "libclient/upgrade.h"

#include "libclient/attach.h"

namespace lyre::client {

int upgrade_daemon(const char* socket_path, Upgraded& out) {
  channel::UpgradeReply reply{};
  const int code = ask_upgrade(socket_path_or_default(socket_path), reply);
  out = {.pid = reply.pid,
         .pause_us = reply.pause_us,
         .release = reply.release,
         .was_refused = reply.error != 0};
  return code;
}

}  // namespace lyre::client
