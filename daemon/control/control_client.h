#pragma once

#include <spdlog/common.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/base/owned_fd.h"
#include "daemon/control/context_registry.h"
#include "daemon/memory/foreign_closer.h"
#include "daemon/protocol/control_message.h"
#include "stack/record/stream.h"

namespace lyre {

class ControlServer;
struct HandedConnection;

/// One connection of the control socket, with a context, a capture or neither. It ends when the
/// socket is closed, when the client's process ends (a forked child may keep the socket open), or
/// when the client breaks a rule.
/// Thread: the server's. Owner: the server's table, and pending asynchronous operations.
class ControlClient : public std::enable_shared_from_this<ControlClient> {
 public:
  ControlClient(ControlServer& server, uint64_t id, boost::asio::posix::stream_descriptor socket,
                ClientIdentity identity);
  /// Here the socket is closed: while the memory helper has a request of it, the helper must not be
  /// the last to close it.
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Begins to take requests. `process` is a pidfd, or none.
  void start(OwnedFd process);
  /// Takes no more requests, and detaches the context. Then hang_up(): at once without a reason, or
  /// when the server says that the context is detached, or after kGoodbyeTimeout.
  void end(std::string_view reason);
  /// Sends the reason of end(), if there is one, and shuts the connection down.
  void hang_up();
  bool awaits_detach_of(uint32_t context) const { return left_context_ == context; }
  bool awaits_detach() const { return left_context_.has_value(); }
  /// It has waited as long as it may: also where no timer can run.
  bool is_goodbye_due() const {
    return awaits_detach() && std::chrono::steady_clock::now() >= region_deadline_.expiry();
  }

  /// Goes on with a client whose context was taken over. `connection.socket` was given to the
  /// constructor.
  void go_on(HandedConnection connection);
  /// Appends a kAttached and its descriptors. REQUIRES: it has a context.
  void write_handover(uint32_t socket, record::Writer& out, std::vector<int>& descriptors);

  /// Goes on with a request that ControlServer::hold_memory_requests() held.
  void take_held_request();
  /// The answer to the pending request about registered memory.
  void on_region(const RegionAnswer& answer);

  std::optional<uint32_t> context() const { return context_; }
  bool is_request_pending() const { return awaited_mapping_ != 0 || awaited_region_ != 0; }
  const ClientIdentity& identity() const { return identity_; }
  /// Writes "client WHO: TEXT", unless clients of its uid have caused too many lines.
  void log(spdlog::level::level_enum level, std::string_view text);

 private:
  void wait_for_request();
  void watch_process(OwnedFd process);
  void wait_for_process_end();
  void wait_for_attach();
  void read_request();
  void read_again_later();
  void on_request(const Request& request, OwnedFd descriptor);
  void on_attach(const channel::AttachRequest& request);
  void on_info();
  void on_capture(const channel::CaptureRequest& request);
  Result<uint32_t> port_to_capture(const channel::CaptureRequest& request) const;
  void on_register(const channel::RegisterRequest& request, OwnedFd descriptor);
  void add_file(OwnedFd file, uint64_t offset, uint64_t bytes);
  void refuse_file(OwnedFd file, const Error& why);
  void open_mapping(const channel::RegisterRequest& request);
  void add_region(ClientMemory memory);
  void on_deregister(const channel::DeregisterRequest& request);
  void await_region(uint32_t region, channel::Control answer);
  void await_removal();
  void on_upgrade();
  void send_region_news();
  bool has_memory_request_next();
  void reply_region(channel::Control type, uint32_t region, const Error& error);
  void grant(const ContextGrant& grant);
  void refuse(const Error& error);
  void end_malformed(const Error& error);
  void leave_context();
  void await_detach();
  bool reply(std::span<const uint8_t> bytes, std::span<const int> descriptors);

  ControlServer& server_;
  uint64_t id_;
  ClientIdentity identity_;
  uint64_t user_;  ///< DomainRules::user_of()
  std::shared_ptr<ForeignCloser> closer_;
  std::string label_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::posix::stream_descriptor process_;
  boost::asio::steady_timer attach_deadline_;
  boost::asio::steady_timer read_again_;
  uint32_t vain_reads_ = 0;  ///< of the next request, in a row
  std::optional<uint32_t> context_;
  uint16_t control_version_ = 0;          ///< of the context's client
  std::optional<uint32_t> left_context_;  ///< set while hang_up() waits for its workers
  std::string reason_;                    ///< for the Goodbye
  std::string logged_refusal_;            ///< of memory, the last one
  std::optional<CaptureRegistry::Id> capture_;
  uint64_t awaited_mapping_ = 0;  ///< of the pending request, at the opener; 0: none
  uint32_t awaited_region_ = 0;   ///< of the pending request; 0: none
  channel::Control awaited_answer_{};
  boost::asio::steady_timer region_deadline_;
  std::chrono::steady_clock::time_point next_removals_until_{};  ///< have kNextRegionTimeout
  bool has_held_request_ = false;
  bool is_over_ = false;
  bool has_hung_up_ = false;
};

}  // namespace lyre
