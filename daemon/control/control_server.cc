#include "daemon/control/control_server.h"

#include <fcntl.h>
#include <grp.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/errno_error.h"
#include "daemon/base/watch.h"
#include "daemon/control/control_client.h"
#include "daemon/protocol/control_message.h"

namespace lyre {
namespace {

constexpr int kBacklog = 64;
/// Pause of accepting when the system has no descriptors or memory.
constexpr auto kRetryPause = std::chrono::milliseconds(100);
/// A shortage is over when no client has waited for so long.
constexpr Nanos kShortagePause = seconds(1);

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

constexpr mode_t kDirectoryMode = 0755;

/// The last component only, so that a mistyped path fails. The mode of the socket decides who may
/// open it, so all may enter a directory that is made here, whatever the service's umask. One that
/// is there keeps its mode.
void make_directory_of(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/'));
  if (directory.empty() || ::mkdir(directory.c_str(), kDirectoryMode) != 0) return;
  if (::chmod(directory.c_str(), kDirectoryMode) != 0) {
    spdlog::warn("{} cannot be given its mode: {}", directory, std::strerror(errno));
  }
}

}  // namespace

Status check_socket_is_free(const std::string& path) {
  const sockaddr_un address = address_of(path);
  OwnedFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.is_open()) return errno_error("no socket");
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(probe.get(), plain, sizeof address) == 0 || errno == EAGAIN) {
    return Error{EADDRINUSE, path + ": another daemon listens there"};
  }
  if (errno == EPROTOTYPE) return Error{EADDRINUSE, path + ": another program listens there"};
  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0 && !S_ISSOCK(file.st_mode)) {
    return Error{EADDRINUSE, path + ": exists and is not a socket"};
  }
  return Ok{};
}

ControlServer::ControlServer(boost::asio::io_context& io, MappingOpener& mappings,
                             ContextRegistry& registry, DaemonFacts facts, ControlOptions options)
    : io_(io),
      mappings_(mappings),
      registry_(registry),
      facts_(std::move(facts)),
      options_(std::move(options)),
      listener_(io),
      retry_(io),
      log_(options_.log_lines_per_minute_max),
      spare_(::eventfd(0, EFD_CLOEXEC)) {}

ControlServer::~ControlServer() {
  stop_accepting();
  hang_up_all();
}

Status ControlServer::open() {
  make_directory_of(options_.socket_path);
  if (Status bound = bind_socket(); !bound.ok()) return bound;
  wait_for_client();
  return Ok{};
}

Status ControlServer::adopt(OwnedFd listener) {
  if (!watch(listener_, listener)) return Error{ENOSPC, kNoMoreWatches};
  return Ok{};
}

void ControlServer::go_on() {
  is_bound_ = true;
  struct stat file {};
  if (::lstat(options_.socket_path.c_str(), &file) == 0) bound_inode_ = file.st_ino;
  apply_permissions();  // the configuration may be another one
  wait_for_client();
}

Status ControlServer::adopt(HandedConnection& connection) {
  boost::asio::posix::stream_descriptor socket(io_);
  if (!watch(socket, connection.socket)) return Error{ENOSPC, kNoMoreWatches};
  connection.watched.emplace(std::move(socket));
  return Ok{};
}

void ControlServer::go_on(HandedConnection connection) {
  boost::asio::posix::stream_descriptor& socket = *connection.watched;
  const auto identity = identity_of(socket.native_handle());
  const uint64_t id = next_id_++;
  auto client = std::make_shared<ControlClient>(
      *this, id, std::move(socket), identity.ok() ? identity.value() : ClientIdentity{});
  clients_.emplace(id, client);
  client->go_on(std::move(connection));
}

uint32_t ControlServer::write_handover(uint32_t number, record::Writer& out,
                                       std::vector<int>& descriptors) const {
  uint32_t count = 0;
  for (const auto& [id, client] : clients_) {
    if (!client->context()) continue;
    client->write_handover(number, out, descriptors);
    ++count;
  }
  return count;
}

bool ControlServer::has_pending_requests() const {
  return std::any_of(clients_.begin(), clients_.end(), [](const auto& entry) {
    // A client that waits for its Goodbye is not handed over.
    return entry.second->is_request_pending() || entry.second->awaits_detach();
  });
}

void ControlServer::say_goodbyes(bool only_due) {
  std::vector<std::shared_ptr<ControlClient>> leaving;  // hang_up() takes them from the table
  for (const auto& [id, client] : clients_) {
    if (only_due ? client->is_goodbye_due() : client->awaits_detach()) leaving.push_back(client);
  }
  for (const auto& client : leaving) client->hang_up();
}

void ControlServer::hold_memory_requests(bool is_held) {
  holds_memory_requests_ = is_held;
  if (is_held) return;
  for (const auto& [id, client] : clients_) client->take_held_request();
}

Status ControlServer::bind_socket() {
  const std::string& path = options_.socket_path;
  const sockaddr_un address = address_of(path);
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  if (Status free = check_socket_is_free(path); !free.ok()) return free;
  ::unlink(path.c_str());  // the socket of a daemon that died
  OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return errno_error("no socket");
  // No client can connect before the permissions are set.
  const mode_t umask_before = ::umask(0777);
  const int bound = ::bind(socket.get(), plain, sizeof address);
  const int code = errno;
  ::umask(umask_before);
  errno = code;
  if (bound != 0) return errno_error(path + ": cannot be bound");
  is_bound_ = true;
  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0) bound_inode_ = file.st_ino;
  has_made_file_ = true;
  apply_permissions();
  if (::listen(socket.get(), kBacklog) != 0) return errno_error(path + ": cannot listen");
  if (!watch(listener_, socket)) return Error{ENOSPC, kNoMoreWatches};
  return Ok{};
}

/// None: another file is in its place. Whoever may write to the folder, such as root in a container
/// into which it is mounted, can replace the socket by a link to any file. Some file systems show
/// another owner than this process, so the owner of a file that it has just made does not count.
OwnedFd ControlServer::own_file() const {
  OwnedFd opened(::open(options_.socket_path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat file {};
  const bool is_own = opened.is_open() && ::fstat(opened.get(), &file) == 0 &&
                      S_ISSOCK(file.st_mode) && file.st_ino == bound_inode_ &&
                      (has_made_file_ || file.st_uid == ::geteuid());
  return is_own ? std::move(opened) : OwnedFd();
}

void ControlServer::apply_permissions() {
  const char* path = options_.socket_path.c_str();
  const OwnedFd socket = own_file();
  if (!socket.is_open()) {
    spdlog::warn("{} is not this daemon's socket any more", path);
    return;
  }
  if (!options_.socket_group.empty()) {
    const group* found = ::getgrnam(options_.socket_group.c_str());
    if (found == nullptr) {
      spdlog::warn("no group '{}': {} keeps the daemon's own group", options_.socket_group, path);
    } else if (::fchownat(socket.get(), "", static_cast<uid_t>(-1), found->gr_gid, AT_EMPTY_PATH) !=
               0) {
      spdlog::warn("{} cannot be given to group '{}': {}", path, options_.socket_group,
                   std::strerror(errno));
    }
  }
  // fchmod() does not take a descriptor of O_PATH.
  const std::string opened = "/proc/self/fd/" + std::to_string(socket.get());
  if (::chmod(opened.c_str(), options_.socket_mode) != 0) {
    spdlog::warn("{} cannot be given its mode: {}", path, std::strerror(errno));
  }
}

void ControlServer::wait_for_client() {
  listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (!error) accept_one();
                       });
}

void ControlServer::accept_one() {
  OwnedFd socket(
      ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return is_short ? pause_accepting() : wait_for_client();
  }
  ++counters_.accepted;
  note_no_shortage();
  wait_for_client();
  const auto identity = identity_of(socket.get());
  if (!identity.ok()) return refuse(std::move(socket), {}, identity.error());
  Status allowed = check_member(socket.get(), identity.value());
  if (allowed.ok()) allowed = check_connections(identity.value());
  if (!allowed.ok()) return refuse(std::move(socket), identity.value(), allowed.error());
  OwnedFd process = process_of(socket.get(), identity.value().pid);
  boost::asio::posix::stream_descriptor watched(io_);
  if (!watch(watched, socket)) {
    return refuse(std::move(socket), identity.value(), {ENOSPC, kNoMoreWatches});
  }
  const uint64_t id = next_id_++;
  auto client = std::make_shared<ControlClient>(*this, id, std::move(watched), identity.value());
  clients_.emplace(id, client);
  client->start(std::move(process));
}

Status ControlServer::check_member(int socket, const ClientIdentity& identity) const {
  if (options_.uids.empty() && options_.gids.empty()) return Ok{};
  const auto has = [](const std::vector<uint32_t>& list, uint32_t id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  bool is_member = has(options_.uids, identity.uid);
  for (const uint32_t gid : groups_of(socket, identity)) is_member |= has(options_.gids, gid);
  if (is_member) return Ok{};
  return Error{EPERM, std::string(channel::kNoMember) + " '" + options_.domain + "'"};
}

uint32_t ControlServer::connections_max_of(uint32_t uid) const {
  const auto& operators = options_.operators;
  const bool is_operator = std::find(operators.begin(), operators.end(), uid) != operators.end();
  return options_.connections_max + (is_operator ? kOperatorConnections : 0);
}

Status ControlServer::check_connections(const ClientIdentity& identity) const {
  const uint32_t uid = identity.uid;
  // Who may open the administrator's socket passes no such descriptors. Others may have the same
  // uid at clients' sockets: root of a container, which can take any.
  const bool has_room = !options_.serves_clients || options_.closer->has_room(user_of(identity));
  if (!has_room) return Error{EUSERS, kTooManyWaitingCloses};
  const uint32_t connections_max = connections_max_of(uid);
  if (clients_.size() >= connections_max) {
    return Error{EUSERS, "too many connections: all " + std::to_string(connections_max) +
                             " of the control socket are in use"};
  }
  const auto of_uid = std::count_if(clients_.begin(), clients_.end(), [uid](const auto& entry) {
    return entry.second->identity().uid == uid;
  });
  if (of_uid < options_.connections_per_uid_max) return Ok{};
  return Error{EUSERS, "too many connections: clients of one uid may have " +
                           std::to_string(options_.connections_per_uid_max) +
                           " (clients.contexts_per_uid_max + " + std::to_string(kLookersPerUidMax) +
                           ")"};
}

uint64_t ControlServer::user_of(const ClientIdentity& identity) const {
  return worker::DomainRules::user_of(options_.rules, identity.uid);
}

/// Clients that come and go at the limit cause no lines.
void ControlServer::note_no_shortage() {
  if (!short_at_ || monotonic_now() - *short_at_ < kShortagePause) return;
  short_at_.reset();
  spdlog::info("new clients are accepted again");
}

void ControlServer::pause_accepting() {
  if (!short_at_) spdlog::warn("out of descriptors or memory: new clients wait");
  short_at_ = monotonic_now();
  retry_.expires_after(kRetryPause);
  retry_.async_wait([this](const boost::system::error_code& error) {
    if (!error) wait_for_client();
  });
}

void ControlServer::refuse(OwnedFd socket, const ClientIdentity& identity, const Error& error) {
  ++counters_.refused;
  if (log_.may_write(spdlog::level::warn, identity.uid, monotonic_now())) {
    spdlog::warn("client {}: refused: {}", describe(identity), error.text);
  }
  auto message = make_message<channel::Goodbye>(channel::Control::kGoodbye);
  copy_text(message.text, error.text);
  static_cast<void>(send_packet(socket.get(), bytes_of(message), {}));
  // By uid: who is no member of the domain takes no place of its members.
  options_.closer->close_socket(std::move(socket), identity.uid);
}

/// A request whose descriptor has no number could only be left in its socket, or taken with a close
/// of that descriptor here, which may block. So one number is kept: the request is taken with it,
/// and refused.
Result<Packet> ControlServer::receive(int socket, std::span<uint8_t> out) {
  if (!spare_.is_open()) spare_.reset(::eventfd(0, EFD_CLOEXEC));
  auto packet = receive_packet(socket, out);
  if (!packet.ok() || !packet.value().is_out_of_descriptors) return packet;
  spare_.reset();
  return receive_packet(socket, out);
}

void ControlServer::stop_accepting() {
  retry_.cancel();
  // One that was adopted only is not shut down: the other process may listen at it.
  if (!is_bound_) return;
  if (listener_.is_open()) {
    options_.closer->close_socket(OwnedFd(listener_.release()), UINT64_MAX);
  }
  is_bound_ = false;
  // Another daemon may have replaced the file in the meantime.
  struct stat file {};
  const char* path = options_.socket_path.c_str();
  if (::lstat(path, &file) == 0 && file.st_ino == bound_inode_) ::unlink(path);
}

void ControlServer::hang_up_all() {
  while (!clients_.empty()) clients_.begin()->second->hang_up();
}

void ControlServer::expel(const Expulsion& expulsion) {
  for (const auto& [id, client] : clients_) {
    if (client->context() != expulsion.context) continue;
    ++counters_.expelled;
    client->log(spdlog::level::warn, std::string("disconnected: ") + expulsion.reason);
    client->end(expulsion.reason);
    return;
  }
}

void ControlServer::on_detached(uint32_t context) {
  for (const auto& [id, client] : clients_) {
    if (client->awaits_detach_of(context)) return client->hang_up();
  }
}

void ControlServer::answer(const RegionAnswer& answer) {
  for (const auto& [id, client] : clients_) {
    if (client->context() == answer.context) return client->on_region(answer);
  }
}

void ControlServer::forget(uint64_t id) { clients_.erase(id); }

}  // namespace lyre
