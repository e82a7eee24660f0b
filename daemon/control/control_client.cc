#include "daemon/control/control_client.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/base/readable.h"
#include "daemon/base/watch.h"
#include "daemon/control/control_server.h"
#include "daemon/memory/client_memory.h"
#include "stack/channel/abi.h"

namespace lyre {

using Descriptor = boost::asio::posix::stream_descriptor;

namespace {

/// Whether the other end of `socket` is closed. What it sent before may still be unread.
bool has_peer_gone(int socket) {
  pollfd entry{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

ControlClient::ControlClient(ControlServer& server, uint64_t id, Descriptor socket,
                             ClientIdentity identity)
    : server_(server),
      id_(id),
      identity_(identity),
      user_(worker::DomainRules::user_of(server.options_.rules, identity.uid)),
      closer_(server.options_.closer),
      socket_(std::move(socket)),
      process_(server.io_),
      attach_deadline_(server.io_),
      read_again_(server.io_),
      region_deadline_(server.io_) {}

ControlClient::~ControlClient() {
  if (socket_.is_open()) closer_->close_socket(OwnedFd(socket_.release()), user_);
}

void ControlClient::log(spdlog::level::level_enum level, std::string_view text) {
  if (!server_.log_.may_write(level, identity_.uid, monotonic_now())) return;
  const std::string who = describe(identity_);
  if (label_.empty()) return spdlog::log(level, "client {}: {}", who, text);
  spdlog::log(level, "client '{}' ({}): {}", label_, who, text);
}

void ControlClient::start(OwnedFd process) {
  wait_for_request();
  wait_for_attach();
  watch_process(std::move(process));
}

void ControlClient::go_on(HandedConnection connection) {
  context_ = connection.context;
  label_ = connection.label;
  control_version_ = connection.control_version;
  wait_for_request();
  watch_process(std::move(connection.process));
}

void ControlClient::write_handover(uint32_t socket, record::Writer& out,
                                   std::vector<int>& descriptors) {
  const AttachedRecord record{.socket = socket,
                              .context = *context_,
                              .label = label_,
                              .has_process = process_.is_open(),
                              .control_version = control_version_};
  out.add(record::Kind::kAttached, kDaemonHandoverVersion,
          [&](record::FieldWriter& fields) { list_attached(fields, record); });
  descriptors.push_back(socket_.native_handle());
  if (record.has_process) descriptors.push_back(process_.native_handle());
}

void ControlClient::wait_for_request() {
  socket_.async_wait(Descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error && !self->is_over_) self->read_request();
                     });
}

void ControlClient::watch_process(OwnedFd process) {
  // Without it, the end of the socket tells of the client's end.
  if (process.is_open() && watch(process_, process)) wait_for_process_end();
}

void ControlClient::wait_for_process_end() {
  process_.async_wait(Descriptor::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (error || self->is_over_) return;
                        if (is_readable(self->process_.native_handle())) return self->end("");
                        self->wait_for_process_end();
                      });
}

/// A client that only asks for information has the answer by then.
void ControlClient::wait_for_attach() {
  attach_deadline_.expires_after(std::chrono::nanoseconds(server_.options_.attach_timeout.value));
  attach_deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->is_over_) return;
    ++self->server_.counters_.idle;
    self->end("no attach in time");
  });
}

/// Without taking it.
bool ControlClient::has_memory_request_next() {
  channel::ControlHeader header;
  const ssize_t count =
      ::recv(socket_.native_handle(), &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
  return count == static_cast<ssize_t>(sizeof header) &&
         (header.type == channel::Control::kRegister ||
          header.type == channel::Control::kDeregister);
}

void ControlClient::take_held_request() {
  if (!std::exchange(has_held_request_, false)) return;
  region_deadline_.cancel();
  wait_for_request();
}

void ControlClient::read_request() {
  // Before the answer to the last request it is a breach.
  if (server_.holds_memory_requests_ && !is_request_pending() && has_memory_request_next()) {
    has_held_request_ = true;
    return send_region_news();
  }
  std::array<uint8_t, kRequestBytesMax> buffer;
  auto packet = server_.receive(socket_.native_handle(), buffer);
  if (!packet.ok()) {
    const int code = packet.error().code;
    if (code == EAGAIN || code == EINTR) return wait_for_request();
    return end("");
  }
  OwnedFd descriptor = std::move(packet.value().descriptor);
  if (packet.value().bytes == 0 || packet.value().is_too_long) {
    closer_->close(std::move(descriptor), user_);
    if (packet.value().bytes == 0) return end("");
    return end_malformed({EPROTO, "a request that is too long"});
  }
  if (packet.value().is_out_of_descriptors) return read_again_later();
  vain_reads_ = 0;
  auto request = check_request(std::span(buffer).first(packet.value().bytes));
  const bool may_carry =
      !request.ok() || std::holds_alternative<channel::RegisterRequest>(*request);
  const bool is_unasked =
      packet.value().has_too_many_descriptors || (descriptor.is_open() && !may_carry);
  if (is_unasked || !request.ok()) {
    closer_->close(std::move(descriptor), user_);
    return end_malformed(is_unasked ? Error{EPROTO, "descriptors that are not allowed"}
                                    : request.error());
  }
  on_request(*request, std::move(descriptor));
  if (!is_over_) wait_for_request();
}

/// The request is still in its socket: even the spare number is in use, as long as a thread closes
/// the file that had it before. A security module that denies a file looks the same.
void ControlClient::read_again_later() {
  constexpr std::chrono::milliseconds kPause{100};
  constexpr uint32_t kVainReadsMax = 20;
  if (++vain_reads_ > kVainReadsMax) {
    ++server_.counters_.out_of_descriptors;
    log(spdlog::level::warn, std::string("hung up on: ") + kOutOfDescriptors);
    return end(
        "its descriptor cannot be received: the daemon has none left (LimitNOFILE), or a "
        "security module denies the file");
  }
  read_again_.expires_after(kPause);
  read_again_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && !self->is_over_) self->read_request();
  });
}

void ControlClient::on_request(const Request& request, OwnedFd descriptor) {
  if (const auto* attach = std::get_if<channel::AttachRequest>(&request)) return on_attach(*attach);
  if (const auto* memory = std::get_if<channel::RegisterRequest>(&request)) {
    return on_register(*memory, std::move(descriptor));
  }
  if (const auto* memory = std::get_if<channel::DeregisterRequest>(&request)) {
    return on_deregister(*memory);
  }
  if (const auto* capture = std::get_if<channel::CaptureRequest>(&request)) {
    return on_capture(*capture);
  }
  if (std::holds_alternative<channel::UpgradeRequest>(request)) return on_upgrade();
  on_info();
}

void ControlClient::end_malformed(const Error& error) {
  ++server_.counters_.malformed;
  log(spdlog::level::warn, "disconnected: " + error.text);
  end(error.text);
}

void ControlClient::on_attach(const channel::AttachRequest& request) {
  if (context_ || capture_) return end_malformed({EPROTO, "a second attach on one connection"});
  label_ = request.label;
  if (!server_.options_.serves_clients) {
    return refuse({EPERM, "this socket is the administrator's: clients use that of their domain"});
  }
  const auto abi_version = channel::common_version(channel::kAbiVersions, request.abi_versions);
  if (!abi_version) {
    return refuse({EPROTONOSUPPORT,
                   channel::no_common_version("channel", "this daemon", channel::kAbiVersions,
                                              "the client's Lyre", request.abi_versions)
                       .text});
  }
  const AttachTerms terms{.identity = identity_,
                          .abi_version = *abi_version,
                          .arena_bytes = request.arena_bytes,
                          .label = label_,
                          .domain = server_.options_.rules,
                          .contexts_of_domain_max = server_.options_.contexts_max,
                          .registered_bytes_of_domain_max = server_.options_.registered_bytes_max};
  const auto granted = server_.registry_.attach(terms);
  if (!granted.ok()) return refuse(granted.error());
  context_ = granted.value().index;
  // check_request() has found one.
  control_version_ =
      channel::common_version(channel::kControlVersions, request.header.versions).value_or(0);
  attach_deadline_.cancel();
  grant(granted.value());
}

void ControlClient::refuse(const Error& error) {
  log(spdlog::level::warn, "not attached: " + error.text);
  auto message = make_message<channel::AttachReply>(channel::Control::kAttached);
  message.error = error.code != 0 ? error.code : EIO;
  copy_text(message.text, error.text);
  reply(bytes_of(message), {});
}

void ControlClient::grant(const ContextGrant& grant) {
  const DaemonFacts& facts = server_.facts_;
  auto message = make_message<channel::AttachReply>(channel::Control::kAttached);
  message.worker_count = facts.worker_count;
  message.lends = grant.is_lent_to ? 1 : 0;
  message.poll_is_busy = facts.is_busy ? 1 : 0;
  message.generation = grant.generation;
  message.context_bytes = grant.context_bytes;
  std::copy(facts.pool_bytes.begin(), facts.pool_bytes.end(), message.pool_bytes);
  const auto ports = facts.ports();
  message.port_count = static_cast<uint32_t>(ports.size());
  std::copy(ports.begin(), ports.end(), message.ports);

  std::vector<int> descriptors{grant.memory_fd, grant.wake_fd, facts.doorbells_fd};
  descriptors.insert(descriptors.end(), grant.worker_rings.begin(), grant.worker_rings.end());
  if (grant.is_lent_to) {
    descriptors.insert(descriptors.end(), facts.pool_fds.begin(), facts.pool_fds.end());
  }
  if (reply(bytes_of(message), descriptors)) {
    log(spdlog::level::info, "attached as context " + std::to_string(grant.index) + " of domain '" +
                                 server_.options_.domain + "'");
  }
}

void ControlClient::on_info() {
  const DaemonFacts& facts = server_.facts_;
  auto message = make_message<channel::InfoReply>(channel::Control::kInfoReply);
  message.stats_bytes = facts.stats_bytes;
  message.worker_count = facts.worker_count;
  const auto ports = facts.ports();
  message.port_count = static_cast<uint32_t>(ports.size());
  std::copy(ports.begin(), ports.end(), message.ports);
  reply(bytes_of(message), std::span(&facts.stats_fd, 1));
}

/// Fails: EPERM, ENOENT; text for the client.
Result<uint32_t> ControlClient::port_to_capture(const channel::CaptureRequest& request) const {
  if (!server_.options_.shows_packets) {
    return Error{EPERM, "packets are those of all clients: ask at the administrator's socket"};
  }
  if (identity_.uid != 0 && identity_.uid != ::geteuid()) {
    return Error{EPERM,
                 "packets are those of all clients: only root and the daemon's user may see them"};
  }
  std::string names;
  const auto ports = server_.facts_.ports();
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (std::string_view(ports[i].name) == request.port) return i;
    names += (i == 0 ? "" : ", ") + std::string(ports[i].name);
  }
  return Error{ENOENT, "there is no port '" + std::string(request.port) + "', but " + names};
}

void ControlClient::on_capture(const channel::CaptureRequest& request) {
  if (context_ || capture_) return end_malformed({EPROTO, "a capture beside something else"});
  auto message = make_message<channel::CaptureReply>(channel::Control::kCaptured);
  const auto refuse_capture = [&](const Error& error) {
    log(spdlog::level::warn, "no capture: " + error.text);
    message.error = error.code != 0 ? error.code : EIO;
    copy_text(message.text, error.text);
    reply(bytes_of(message), {});
  };
  const auto port = port_to_capture(request);
  if (!port.ok()) return refuse_capture(port.error());
  const auto begun = server_.registry_.captures().begin(port.value(), request.snap_bytes);
  if (!begun.ok()) return refuse_capture(begun.error());
  capture_ = begun.value().id;
  attach_deadline_.cancel();
  message.ring_count = server_.facts_.worker_count;
  if (reply(bytes_of(message), std::span(&begun.value().memory_fd, 1))) {
    log(spdlog::level::info, "captures port " + std::string(request.port));
  }
}

/// The daemon's own user and root: they could as well replace the process by a signal.
void ControlClient::on_upgrade() {
  const auto answer = [self = shared_from_this()](const UpgradeResult& result) {
    if (self->is_over_) return;
    auto message = make_message<channel::UpgradeReply>(channel::Control::kUpgradeReply);
    message.error = result.status.ok() ? 0 : result.status.error().code;
    if (!result.status.ok()) copy_text(message.text, result.status.error().text);
    if (message.error == 0 && !result.status.ok()) message.error = EIO;
    message.pid = result.pid;
    message.pause_us = result.pause_us;
    copy_text(message.release, result.release);
    self->reply(bytes_of(message), {});
  };
  if (identity_.uid != 0 && identity_.uid != ::geteuid()) {
    return answer({.status = Error{EPERM, "an upgrade is for root and the daemon's own user"}});
  }
  if (!server_.upgrade_) {
    return answer(
        {.status = Error{EPERM, "an upgrade is asked for at the administrator's socket"}});
  }
  // A daemon that was stopped reads the request of one who gave up long before.
  if (has_peer_gone(socket_.native_handle())) {
    log(spdlog::level::info, "asked for an upgrade, and hung up before it began: none begins");
    return end("");
  }
  attach_deadline_.cancel();  // the answer takes longer
  log(spdlog::level::info, "asks for an upgrade");
  server_.upgrade_(answer);
}

void ControlClient::on_register(const channel::RegisterRequest& request, OwnedFd descriptor) {
  const bool has_descriptor = request.source == channel::RegionSource::kDescriptor;
  if (has_descriptor != descriptor.is_open()) {
    closer_->close(std::move(descriptor), user_);
    return end_malformed({EPROTO, "a descriptor is missing or not allowed"});
  }
  if (!context_ || is_request_pending()) {
    closer_->close(std::move(descriptor), user_);
    return end_malformed(
        {EPROTO, "a request about memory without a context, or before the last one was answered"});
  }
  if (!has_descriptor) return open_mapping(request);
  if (!server_.spare_.is_open()) {  // it has the number of the spare one
    ++server_.counters_.out_of_descriptors;
    log(spdlog::level::warn, std::string("not registered: ") + kOutOfDescriptors);
    return refuse_file(std::move(descriptor), {EMFILE, kOutOfDescriptors});
  }
  if (!is_memory_file(descriptor.get())) {
    return refuse_file(std::move(descriptor),
                       {EINVAL, "neither a memfd nor a file of tmpfs or hugetlbfs"});
  }
  add_file(std::move(descriptor), request.offset, request.bytes);
}

void ControlClient::add_file(OwnedFd file, uint64_t offset, uint64_t bytes) {
  auto memory = memory_of_file(file, offset, bytes);
  if (!memory.ok()) return refuse_file(std::move(file), memory.error());
  add_region(std::move(*memory));
}

void ControlClient::refuse_file(OwnedFd file, const Error& why) {
  const bool has_room = closer_->has_room(user_);
  closer_->close(std::move(file), user_);
  if (!has_room) return end_malformed({EUSERS, kTooManyWaitingCloses});
  reply_region(channel::Control::kRegistered, 0, why);
}

void ControlClient::open_mapping(const channel::RegisterRequest& request) {
  awaited_mapping_ = server_.mappings_.open(
      socket_.native_handle(), user_, {request.mapping_begin, request.mapping_end},
      [self = shared_from_this(), offset = request.offset,
       bytes = request.bytes](Result<OwnedFd> opened) {
        self->awaited_mapping_ = 0;
        if (!opened.ok()) {
          if (!self->is_over_) {
            self->reply_region(channel::Control::kRegistered, 0, opened.error());
          }
        } else if (self->is_over_) {
          self->closer_->close(std::move(*opened), self->user_);
        } else {
          self->add_file(std::move(*opened), offset, bytes);
        }
      });
  send_region_news();
}

void ControlClient::add_region(ClientMemory memory) {
  const auto region = server_.registry_.regions().add(*context_, std::move(memory));
  if (!region.ok()) {
    // A client may ask again and again until the limit has room.
    if (region.error().code == EDQUOT && region.error().text != logged_refusal_) {
      logged_refusal_ = region.error().text;
      log(spdlog::level::warn, "not registered: " + logged_refusal_);
    }
    return refuse_file(std::move(memory.file), region.error());
  }
  await_region(region.value(), channel::Control::kRegistered);
}

void ControlClient::on_deregister(const channel::DeregisterRequest& request) {
  if (!context_ || is_request_pending()) {
    return end_malformed({EPROTO, "a request about memory out of turn"});
  }
  const Status removed = server_.registry_.regions().remove(*context_, request.region);
  if (!removed.ok()) return end_malformed(removed.error());
  await_region(request.region, channel::Control::kDeregistered);
}

void ControlClient::await_region(uint32_t region, channel::Control answer) {
  awaited_region_ = region;
  awaited_answer_ = answer;
  if (answer == channel::Control::kRegistered) return send_region_news();
  await_removal();
}

/// Memory is opened after that of others, large memory is mapped for seconds, and an upgrade holds
/// requests. A client that gets no reply in time closes its context.
void ControlClient::send_region_news() {
  region_deadline_.expires_after(std::chrono::nanoseconds(kRegionNewsPeriod.value));
  region_deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->is_over_) return;
    if (!self->is_request_pending() && !self->has_held_request_) return;
    self->reply_region(channel::Control::kRegionPending, self->awaited_region_, {});
    if (!self->is_over_) self->send_region_news();
  });
}

/// The workers answer within microseconds; a port that holds on to sent packets, later.
void ControlClient::await_removal() {
  const bool is_next = std::chrono::steady_clock::now() < next_removals_until_;
  const Nanos timeout = is_next ? kNextRegionTimeout : kRegionTimeout;
  region_deadline_.expires_after(std::chrono::nanoseconds(timeout.value));
  region_deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->is_over_ || self->awaited_region_ == 0) return;
    const uint32_t awaited = std::exchange(self->awaited_region_, 0);
    self->next_removals_until_ =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(kRegionTimeout.value);
    self->reply_region(self->awaited_answer_, awaited,
                       {ETIMEDOUT, "a port still holds packets that refer to the memory"});
  });
}

void ControlClient::on_region(const RegionAnswer& answer) {
  if (answer.region != awaited_region_) return;
  awaited_region_ = 0;
  next_removals_until_ = {};
  region_deadline_.cancel();
  Error error;
  if (answer.error != nullptr) error = {EBUSY, answer.error};
  reply_region(awaited_answer_, answer.region, error);
}

void ControlClient::reply_region(channel::Control type, uint32_t region, const Error& error) {
  auto message = make_message<channel::RegionReply>(type);
  message.error = error.code;
  message.region = region;
  copy_text(message.text, error.text);
  reply(bytes_of(message), {});
}

bool ControlClient::reply(std::span<const uint8_t> bytes, std::span<const int> descriptors) {
  const Status sent = send_packet(socket_.native_handle(), bytes, descriptors);
  if (sent.ok()) return true;
  // Answers are not queued: a client whose socket is full is disconnected.
  log(spdlog::level::info, "disconnected: " + sent.error().text);
  // A process that has gone needs no reason. Another one may reuse its memory at the hang-up, so
  // that comes after the detach.
  const bool has_gone = sent.error().code == EPIPE || sent.error().code == ECONNRESET;
  end(context_ && descriptors.empty() && !has_gone ? "its answers were not read" : "");
  return false;
}

void ControlClient::end(std::string_view reason) {
  if (is_over_) return;
  is_over_ = true;
  reason_ = reason;
  const auto self = shared_from_this();  // forget() drops the table's share
  boost::system::error_code ignored;
  socket_.cancel(ignored);
  process_.close(ignored);
  attach_deadline_.cancel();
  read_again_.cancel();
  region_deadline_.cancel();
  if (awaited_mapping_ != 0) server_.mappings_.forget(std::exchange(awaited_mapping_, 0));
  awaited_region_ = 0;
  has_held_request_ = false;  // its timer is await_detach()'s now
  if (capture_) {
    log(spdlog::level::info, "captures no more");
    server_.registry_.captures().end(*capture_);
    capture_.reset();
  }
  if (!context_) return hang_up();
  leave_context();
  if (reason_.empty()) return hang_up();
  await_detach();
}

void ControlClient::leave_context() {
  log(spdlog::level::info, "detached from context " + std::to_string(*context_));
  server_.registry_.detach(*context_, !reason_.empty());
  left_context_ = std::exchange(context_, std::nullopt);
}

/// A client that has the Goodbye may change the memory that it sent from: a worker or a NIC that
/// read it then would send the changed bytes.
void ControlClient::await_detach() {
  region_deadline_.expires_after(std::chrono::nanoseconds(kGoodbyeTimeout.value));
  region_deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->hang_up();
  });
}

void ControlClient::hang_up() {
  const auto self = shared_from_this();
  end("");  // unless it has begun
  if (std::exchange(has_hung_up_, true)) return;
  region_deadline_.cancel();
  left_context_.reset();
  if (!reason_.empty()) {
    auto message = make_message<channel::Goodbye>(channel::Control::kGoodbye);
    copy_text(message.text, reason_);
    // A client whose socket is full sees only that the connection is closed.
    static_cast<void>(send_packet(socket_.native_handle(), bytes_of(message), {}));
  }
  ::shutdown(socket_.native_handle(), SHUT_RDWR);
  server_.forget(id_);
}

}  // namespace lyre
