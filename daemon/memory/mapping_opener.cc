#include "daemon/memory/mapping_opener.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "daemon/base/errno_error.h"
#include "daemon/memory/mapping_helper.h"
#include "daemon/memory/mapping_protocol.h"
#include "daemon/protocol/control_message.h"

namespace lyre {

Result<MappingHelperProcess> MappingHelperProcess::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("no socket for the memory helper");
  }
  OwnedFd own(ends[0]);
  OwnedFd others(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error("no process for the memory helper");
  if (pid == 0) run_mapping_helper(std::move(others));  // which closes `own`
  MappingHelperProcess process;
  process.socket_ = std::move(own);
  process.pid_ = pid;
  return process;
}

MappingHelperProcess& MappingHelperProcess::operator=(MappingHelperProcess&& other) noexcept {
  if (this == &other) return *this;
  end();
  socket_ = std::move(other.socket_);
  pid_ = std::exchange(other.pid_, -1);
  return *this;
}

void MappingHelperProcess::end() {
  socket_.reset();
  if (pid_ > 0) ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

MappingOpener::MappingOpener(boost::asio::io_context& io, MappingHelperProcess helper)
    : socket_(io), helper_(std::move(helper)) {
  if (!helper_.is_running()) return;
  socket_.assign(helper_.socket());
  wait_for_reply();
}

MappingOpener::~MappingOpener() {
  if (socket_.is_open()) socket_.release();  // it belongs to `helper_`
}

void MappingOpener::open(int client_socket, const ForeignMapping& mapping, Done done) {
  if (!helper_.is_running()) {
    return done(Error{EPIPE, "the daemon's memory helper is not there"});
  }
  const MappingRequest request{.id = next_id_++, .begin = mapping.begin, .end = mapping.end};
  const Status sent =
      send_packet(helper_.socket(), bytes_of(request), std::span(&client_socket, 1));
  if (!sent.ok()) return done(sent.error());
  pending_.emplace(request.id, std::move(done));
}

void MappingOpener::wait_for_reply() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) return;
                       if (take_reply()) return wait_for_reply();
                       give_up();
                     });
}

/// False: the helper has ended.
bool MappingOpener::take_reply() {
  MappingReply reply;
  auto packet =
      receive_packet(helper_.socket(), std::span(reinterpret_cast<uint8_t*>(&reply), sizeof reply));
  if (!packet.ok()) return packet.error().code == EAGAIN || packet.error().code == EINTR;
  if (packet.value().bytes != sizeof reply) return false;
  auto pending = pending_.extract(reply.id);
  if (pending.empty()) return true;
  if (reply.error == 0 && packet.value().descriptor.is_open()) {
    pending.mapped()(std::move(packet.value().descriptor));
  } else {
    reply.text[sizeof reply.text - 1] = '\0';
    pending.mapped()(Error{reply.error != 0 ? reply.error : EIO, reply.text});
  }
  return true;
}

/// It cannot be started again: this process has no capability left to give it.
void MappingOpener::give_up() {
  spdlog::error(
      "the memory helper has ended: shared anonymous memory of clients is copied from now on, "
      "until "
      "the daemon is restarted");
  socket_.release();
  helper_.end();
  for (auto& [id, done] : std::exchange(pending_, {})) {
    done(Error{EPIPE, "the daemon's memory helper has ended"});
  }
}

}  // namespace lyre
