#pragma once

#include <vector>

#include "daemon/assembly.h"
#include "daemon/config/config.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/upgrade/upgrade_link.h"

namespace lyre {

/// The daemon that comes in an upgrade: the other end of Predecessor. Its calls are made in the
/// order of their declaration. Each fails with one line, and the process then has to end: the other
/// one waits for that before it goes on. Thread: the control thread.
class Successor {
 public:
  explicit Successor(OwnedFd socket) : link_(std::move(socket)) {}

  /// What the other process says of itself is there. Returns how many workers it has.
  Result<uint32_t> await_offer();
  /// Whether both daemons fit together.
  Status meet(const Config& config);
  /// The other process, which has the NICs until await_ports() returns.
  io::NicOwner nic_owner() const { return nic_owner_; }
  /// All is prepared that needs no port. Returns when the ports are free.
  Status await_ports();
  /// For Assembly::complete().
  const Assembly::Heritage& heritage() const { return heritage_; }
  /// Takes clients and sessions over, before the workers' first turn. What belongs to the control
  /// sockets is kept until watch_sockets().
  Status take_over(Assembly& parts);
  /// Watches the sockets of the other process and of its clients, while it can still go on with
  /// them. Nothing is taken from them.
  Status watch_sockets(Assembly& parts, MappingOpener& mappings);
  /// The workers are ready: from now on this process serves, and the other one ends.
  Status commit();
  /// Serves the clients that were taken over.
  void go_on(Assembly& parts);

  /// Tells the other process why this one ends.
  void give_up(const Error& error) const { link_.send_failure(error.text); }

 private:
  struct Connection {
    uint32_t socket = 0;
    HandedConnection connection;
  };

  Status take_connection(Assembly& parts, record::Reader& in);
  Status take_workers(Assembly& parts, record::Reader& in);
  void report_standstill(Assembly& parts) const;

  UpgradeLink link_;
  std::vector<uint8_t> offer_;
  Assembly::Heritage heritage_;
  io::NicOwner nic_owner_;
  UpgradeState state_;
  Nanos stopped_at_;  ///< when the state arrived: the other process's workers do not run
  RegistryRecord registry_;
  OwnedFd helper_;
  std::vector<OwnedFd> listeners_;
  std::vector<Connection> connections_;
};

}  // namespace lyre
