#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "daemon/base/owned_fd.h"
#include "daemon/memory/client_mapping.h"
#include "stack/base/result.h"

namespace lyre {

/// The memory helper as its parent has it: a process and our end of the socket. Owner: the
/// destructor closes the socket and waits until the process has ended.
class MappingHelperProcess {
 public:
  /// Forks. REQUIRES: no thread has been started yet, and all capabilities that this process will
  /// ever have are there. Fails: what the system says.
  static Result<MappingHelperProcess> start();

  MappingHelperProcess() = default;
  MappingHelperProcess(MappingHelperProcess&& other) noexcept { *this = std::move(other); }
  MappingHelperProcess& operator=(MappingHelperProcess&& other) noexcept;
  ~MappingHelperProcess() { end(); }

  bool is_running() const { return socket_.is_open(); }
  int socket() const { return socket_.get(); }
  pid_t pid() const { return pid_; }
  void end();

 private:
  OwnedFd socket_;
  pid_t pid_ = -1;
};

/// Opens shared anonymous memory of clients by means of the memory helper. Nothing waits.
/// Thread: the control thread, which runs `io`.
class MappingOpener {
 public:
  using Done = std::function<void(Result<OwnedFd>)>;

  /// Without a running helper every open() fails.
  MappingOpener(boost::asio::io_context& io, MappingHelperProcess helper);
  ~MappingOpener();
  MappingOpener(const MappingOpener&) = delete;
  MappingOpener& operator=(const MappingOpener&) = delete;

  /// Opens the mapping of the client at the other end of `client_socket` (borrowed), and calls
  /// `done` once, perhaps before it returns. Fails: as open_client_mapping(); ETIMEDOUT the
  /// client kept its mappings locked; EPIPE the helper has ended; EAGAIN too many requests.
  void open(int client_socket, const ForeignMapping& mapping, Done done);

 private:
  void wait_for_reply();
  bool take_reply();
  void give_up();

  boost::asio::posix::stream_descriptor socket_;
  MappingHelperProcess helper_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Done> pending_;  ///< by id
};

}  // namespace lyre
