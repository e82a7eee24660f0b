#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/base/owned_fd.h"
#include "daemon/memory/client_mapping.h"
#include "stack/base/result.h"

namespace lyre {

/// The memory helper as its parent has it: a process and our end of the socket. Owner: the
/// destructor closes the socket and waits until the process has ended. One that does not end within
/// kMappingHelperEnd is killed.
class MappingHelperProcess {
 public:
  /// Forks a helper that opens mappings by `open`, and may be replaced by `program`, an absolute
  /// path; empty: it may not. REQUIRES: no thread has been started yet, and the process still has
  /// its initial capabilities. Fails: what the system says.
  static Result<MappingHelperProcess> start(const std::string& program,
                                            MappingOpen open = open_client_mapping);

  MappingHelperProcess() = default;
  /// The process at the other end of `socket`; -1: no process to wait for.
  explicit MappingHelperProcess(OwnedFd socket, pid_t pid = -1)
      : socket_(std::move(socket)), pid_(pid) {}
  MappingHelperProcess(MappingHelperProcess&& other) noexcept { *this = std::move(other); }
  MappingHelperProcess& operator=(MappingHelperProcess&& other) noexcept;
  ~MappingHelperProcess() { end(); }

  bool is_running() const { return socket_.is_open(); }
  int socket() const { return socket_.get(); }
  pid_t pid() const { return pid_; }
  void end();

 private:
  bool await_end(Nanos limit) const;

  OwnedFd socket_;
  pid_t pid_ = -1;
};

/// Opens shared anonymous memory of clients by means of the memory helper. Nothing waits. Clients
/// of one user (DomainRules::user_of()) have few requests at the helper at a time, because each may
/// take a second; the free places go to the users that have fewest there. Thread: the control
/// thread, which runs `io`.
class MappingOpener {
 public:
  using Done = std::function<void(Result<OwnedFd>)>;

  /// Without a running helper every open() fails, and with one that cannot be watched.
  /// `patience`: the helper's, for each request.
  MappingOpener(boost::asio::io_context& io, MappingHelperProcess helper,
                Nanos patience = kMappingPatience);
  ~MappingOpener();
  MappingOpener(const MappingOpener&) = delete;
  MappingOpener& operator=(const MappingOpener&) = delete;

  /// Goes on with a helper that another process started. Nothing is received from it before `io`
  /// runs. REQUIRES: there is none. Fails: the system watches no more descriptors.
  Status use(MappingHelperProcess helper);
  /// Has the helper execute the program at the path from which it was started. What becomes of it
  /// is in the log when `io` runs. Nothing that was sent to it is lost.
  void replace_helper();
  /// Our end of the helper's socket; -1: there is no helper.
  int helper_socket() const { return helper_.socket(); }

  /// Opens the mapping of the client at the other end of `client_socket` (borrowed until `done` or
  /// forget()), a client of `user`. Calls `done` later, from `io`. Returns a name for forget().
  /// Fails: as open_client_mapping(); ETIMEDOUT the client kept its mappings locked, or the helper
  /// does not answer, or all places that the request could have are of requests that it does not
  /// answer; EIO, EAGAIN the helper could not; EPIPE the helper has ended.
  uint64_t open(int client_socket, uint64_t user, const ForeignMapping& mapping, Done done);
  /// The client is gone: a request that waits is dropped. `done` of another one is still called.
  void forget(uint64_t id) { waiting_.erase(id); }
  /// Answers requests that are not at the helper yet: EAGAIN.
  void refuse_waiting();

  static constexpr size_t kRequestsOfUserMax = 2;  ///< at the helper at a time

 private:
  struct Request {
    int client_socket;
    uint64_t user;
    ForeignMapping mapping;
    Done done;
    Nanos due{};               ///< when it fails, at the helper
    bool is_answered = false;  ///< it has failed, and the helper may still answer
  };
  using Requests = std::map<uint64_t, Request>;  ///< by id

  enum class Reply : uint8_t { kTaken, kLeft, kNoHelper };

  void wait_for_reply();
  void look_again_later();
  Reply take_reply();
  void send_waiting();
  Requests::iterator next_waiting();
  size_t sent_count_of(uint64_t user) const;
  void watch_oldest();
  void fail_overdue();
  void fail_stuck();
  bool are_overdue(const std::optional<uint64_t>& user) const;
  void give_up();
  void answer_all(Requests requests, const Error& error);

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer overdue_;
  boost::asio::steady_timer look_again_;
  bool is_watching_ = false;
  const Nanos patience_;
  MappingHelperProcess helper_;
  /// Not from 1 on: after an upgrade the helper may still answer requests of the process before.
  uint64_t next_id_ = static_cast<uint64_t>(monotonic_now().value);
  Requests waiting_;
  Requests sent_;  ///< at most kMappingRequestsMax
};

}  // namespace lyre
