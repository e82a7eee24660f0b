#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "libclient/resources.h"
#include "stack/channel/abi.h"
#include "stack/channel/control.h"
#include "stack/channel/ring.h"

namespace lyre::client {

struct FakeDaemonOptions {
  uint32_t worker_count = 1;
  uint64_t arena_bytes = 1u << 20;
  uint64_t pool_bytes = 64 * 1024;
  bool lends = true;
  bool is_silent = false;             ///< accepts, never answers
  std::chrono::milliseconds late{0};  ///< accepts, and answers so much later
  bool ends = false;                  ///< hangs up instead of answering, and listens no more
  bool ends_unread = false;           ///< before it reads the request
  int dropped_first = 0;              ///< clients that it hangs up on, unread, before others
  const char* goodbye = nullptr;      ///< said before it hangs up
  int descriptors_less = 0;           ///< left out of the reply
  /// Changes what is told before it is sent.
  std::function<void(channel::AttachReply&, channel::ContextHeader&)> distort;
};

/// The daemon's side of the channel for one client, moved by hand: the test says what a worker
/// takes and tells. A thread answers the attach; it ends with the object.
class FakeDaemon {
 public:
  explicit FakeDaemon(const FakeDaemonOptions& options = {});
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  const char* socket_path() const { return path_.c_str(); }
  /// A context attached to this daemon.
  lyre_context* attach(uint64_t patience_ms = 0);
  /// Waits until a client that another process attached has its answer.
  void await_client();

  /// What the client submitted to the worker; waits for it at most two seconds.
  channel::Submission take(uint32_t worker = 0);
  std::optional<channel::Submission> try_take(uint32_t worker = 0);
  void tell(const channel::Completion& entry, uint32_t worker = 0);
  channel::RingPair& rings(uint32_t worker = 0);

  uint8_t* pool(uint32_t worker = 0) { return pools_[worker].data(); }
  const uint8_t* arena() const { return memory_.data() + layout_.arena_offset; }
  uint8_t* memory() { return memory_.data(); }
  const channel::ContextLayout& layout() const { return layout_; }
  void fall_asleep(uint32_t worker = 0);
  /// The worker moves large messages on a crowded host.
  void say_crowded(uint32_t worker);
  bool is_client_asleep();
  /// Rings of the worker's doorbell since the last call.
  uint64_t rings_heard(uint32_t worker = 0);
  /// Waits for what the client asks about memory.
  channel::RegisterRequest take_registration();
  void answer_registration(uint32_t region, int error = 0);
  channel::DeregisterRequest take_deregistration();
  void answer_deregistration(uint32_t region, int error = 0);
  /// Waits until the client has hung up; false after two seconds.
  bool sees_the_end();
  void say_goodbye(const char* text);
  void hang_up();

 private:
  template <typename Request>
  Request take_memory_request(channel::Control type);
  void answer_memory_request(channel::Control type, uint32_t region, int error = 0);
  void serve();
  bool accept_client();
  void take_attach(bool is_left);
  void send_reply(int socket);

  FakeDaemonOptions options_;
  std::string folder_;
  std::string path_;
  channel::ContextLayout layout_;
  UniqueFd listener_;
  UniqueFd connection_;
  UniqueFd stop_;
  UniqueFd memory_fd_, doorbells_fd_, wake_;
  std::vector<UniqueFd> worker_wakes_, pool_fds_;
  Mapping memory_, doorbells_;
  std::vector<Mapping> pools_;
  std::vector<channel::SubmissionConsumer> submissions_;
  std::vector<channel::CompletionProducer> completions_;
  std::thread server_;
};

/// What every send_done() says of the path.
inline constexpr uint32_t kRttMinUs = 20;
inline constexpr uint32_t kRtoUs = 200'020;

// Entries as a worker writes them.
channel::Completion connecting(uint64_t cookie, channel::SessionName name);
channel::Completion connect_failed(uint64_t cookie, channel::EndStatus status);
channel::Completion connected(uint64_t cookie, channel::SessionName name);
channel::Completion accepted(uint64_t cookie, channel::SessionName name);
channel::Completion listening(uint64_t cookie, channel::SessionName name, uint16_t port);
channel::Completion listen_failed(uint64_t cookie, channel::EndStatus status);
channel::Completion send_done(channel::SessionName name, uint64_t descriptors,
                              uint32_t acked_bytes = 0,
                              channel::EndStatus status = channel::EndStatus::kOk);
channel::Completion data(channel::SessionName name, std::vector<channel::LentSlice> slices,
                         uint8_t pool = 0);
channel::Completion peer_finished(channel::SessionName name);
channel::Completion ended(channel::SessionName name,
                          channel::EndStatus status = channel::EndStatus::kOk);

lyre_addr address(const char* text);
/// `happened` is 0 when there is none.
lyre_event next_event(lyre_context* context);

/// A session that the daemon has just connected under `name`.
lyre_session* open_session(FakeDaemon& daemon, lyre_context* context, channel::SessionName name,
                           uint32_t worker = 0);

}  // namespace lyre::client
