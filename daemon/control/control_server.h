#pragma once

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/owned_fd.h"
#include "daemon/control/client_log.h"
#include "daemon/control/context_registry.h"
#include "daemon/memory/foreign_closer.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/protocol/control_message.h"
#include "stack/channel/control.h"
#include "stack/record/stream.h"

namespace lyre {

class ControlClient;

/// What became of an upgrade.
struct UpgradeResult {
  Status status = Ok{};
  int32_t pid = 0;        ///< of the new process
  uint32_t pause_us = 0;  ///< no worker made a turn for so long
  std::string release;    ///< of the new process
};
/// Begins an upgrade; `answer` is called once, then or later.
using Upgrade = std::function<void(std::function<void(const UpgradeResult&)> answer)>;

struct ControlOptions {
  std::string domain = "default";  ///< for the log
  /// Of the domain, for the workers' life; none: everything is allowed. Borrowed.
  const worker::DomainRules* rules = nullptr;
  std::vector<uint32_t> uids;                  ///< members; with
  std::vector<uint32_t> gids;                  ///< neither: all who can open the socket
  uint32_t contexts_max = UINT32_MAX;          ///< of the domain
  uint64_t registered_bytes_max = UINT64_MAX;  ///< the same
  bool serves_clients = true;                  ///< else it shows the daemon's state only
  bool shows_packets = false;                  ///< to the administrator, who captures them
  std::string socket_path;
  std::string socket_group;  ///< "": left alone
  uint32_t socket_mode = 0660;
  uint32_t connections_max = 0;  ///< of all clients; operators have kOperatorConnections more
  uint32_t connections_per_uid_max = UINT32_MAX;
  std::vector<uint32_t> operators = {0, ::geteuid()};  ///< their uids
  uint32_t log_lines_per_minute_max = UINT32_MAX;      ///< about clients of one uid
  Nanos attach_timeout = kAttachTimeout;
  std::shared_ptr<ForeignCloser> closer;  ///< that of all control sockets
};

/// A client's connection of another process, which it handed over.
struct HandedConnection {
  OwnedFd socket;                                                ///< until adopt()
  OwnedFd process;                                               ///< a pidfd, or none
  std::optional<boost::asio::posix::stream_descriptor> watched;  ///< the socket, since adopt()
  uint32_t context = 0;
  std::string label;
  uint16_t control_version = channel::kControlVersions.max;  ///< that the client speaks
};

/// The part of a reply that is the same for all clients. Descriptors are borrowed.
struct DaemonFacts {
  uint32_t worker_count = 0;
  bool is_busy = false;
  int doorbells_fd = -1;             ///< read-only
  std::vector<int> pool_fds;         ///< read-only, by worker
  std::vector<uint64_t> pool_bytes;  ///< by worker
  int stats_fd = -1;                 ///< read-only
  uint64_t stats_bytes = 0;
  std::function<std::vector<channel::PortInfo>()> ports;  ///< as they are now
};

/// Counted since the start.
struct ControlCounters {
  uint64_t accepted = 0;
  uint64_t refused = 0;    ///< over the limit of connections
  uint64_t malformed = 0;  ///< ended for a message that is not the protocol
  uint64_t expelled = 0;   ///< ended because a worker said so
  uint64_t idle = 0;       ///< ended because they did not attach in time
  /// Requests that were refused, or clients that were ended, for want of a number for a descriptor.
  uint64_t out_of_descriptors = 0;
};

/// Why a client, or the next one of its uid, is refused (ForeignCloser).
inline constexpr const char* kTooManyWaitingCloses =
    "descriptors that clients of this uid passed are still being closed";

/// Fails: EADDRINUSE something listens on `path`, or it is a file of another kind.
Status check_socket_is_free(const std::string& path);

/// The control socket. An error of a client ends its own connection only.
/// Thread: the one that runs `io`.
class ControlServer {
 public:
  ControlServer(boost::asio::io_context& io, MappingOpener& mappings, ContextRegistry& registry,
                DaemonFacts facts, ControlOptions options);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Makes the socket file and listens. Replaces the file of a daemon that died.
  /// Fails: EADDRINUSE another daemon listens there; or the system's error.
  Status open();
  /// Watches the listening socket of another process, which has left its file in place. Neither the
  /// file nor who waits in the socket is touched before go_on(). Fails: the system watches no more
  /// descriptors.
  Status adopt(OwnedFd listener);
  /// Goes on with it. The file gets the permissions of this configuration. REQUIRES: adopt()
  /// succeeded, and that process serves no more.
  void go_on();
  /// Watches the socket of a client of that process, and takes nothing from it. Fails as above.
  Status adopt(HandedConnection& connection);
  /// Goes on with that client. REQUIRES: adopt() succeeded, and its context was taken over.
  void go_on(HandedConnection connection);
  void serve_upgrades(Upgrade upgrade) { upgrade_ = std::move(upgrade); }
  int listener() { return listener_.native_handle(); }
  /// Appends a kAttached for each client that has a context. Returns how many.
  uint32_t write_handover(uint32_t number, record::Writer& out,
                          std::vector<int>& descriptors) const;
  /// True while a client waits for an answer about registered memory, or for its Goodbye.
  bool has_pending_requests() const;
  /// Says it to those that wait for it: to all, or where it is due.
  void say_goodbyes(bool only_due);
  /// While true, requests about registered memory are not taken: they wait in their sockets for the
  /// process that goes on. Their clients are told that they are under way.
  void hold_memory_requests(bool is_held);
  /// Stops accepting clients and removes the socket file. Connected clients stay.
  void stop_accepting();
  /// Closes the connection of every client and detaches it. Without a Goodbye: a client takes that
  /// for the answer to a broken rule, and attaches to no later daemon.
  void hang_up_all();
  /// Disconnects the client of a context that broke a rule. It is told so when on_detached() was
  /// called for the context, or after kGoodbyeTimeout.
  void expel(const Expulsion& expulsion);
  /// See ContextRegistry::take_detached().
  void on_detached(uint32_t context);
  /// Answers a client's request about registered memory.
  void answer(const RegionAnswer& answer);

  const ControlCounters& counters() const { return counters_; }
  size_t connection_count() const { return clients_.size(); }

 private:
  friend class ControlClient;

  Status bind_socket();
  OwnedFd own_file() const;
  void apply_permissions();
  void wait_for_client();
  void accept_one();
  void pause_accepting();
  void note_no_shortage();
  uint32_t connections_max_of(uint32_t uid) const;
  Status check_connections(const ClientIdentity& identity) const;
  uint64_t user_of(const ClientIdentity& identity) const;
  Status check_member(int socket, const ClientIdentity& identity) const;
  void refuse(OwnedFd socket, const ClientIdentity& identity, const Error& error);
  Result<Packet> receive(int socket, std::span<uint8_t> out);
  void forget(uint64_t id);

  boost::asio::io_context& io_;
  MappingOpener& mappings_;
  ContextRegistry& registry_;
  DaemonFacts facts_;
  ControlOptions options_;
  Upgrade upgrade_;  ///< none: this daemon cannot be upgraded
  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer retry_;
  std::optional<Nanos> short_at_;  ///< when a client last waited for descriptors or memory of this
                                   ///< process; none: the log says that there is no shortage
  bool holds_memory_requests_ = false;
  bool is_bound_ = false;
  uint64_t bound_inode_ = 0;
  bool has_made_file_ = false;  ///< this process, not a predecessor
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::shared_ptr<ControlClient>> clients_;
  ControlCounters counters_;
  ClientLog log_;
  OwnedFd spare_;  ///< gives its number to a descriptor of a client for which there is no other one
};

}  // namespace lyre
