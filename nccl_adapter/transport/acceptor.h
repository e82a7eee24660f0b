#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/protocol/hello.h"
#include "nccl_adapter/transport/stream.h"

namespace lyre::nccl_adapter {

class Instance;
class Acceptor;
class RecvComm;

/// What NCCL's listen() gives: a nonce that a peer's hello names.
/// Thread: under the instance's lock. Owner: the acceptor.
class ListenComm {
 public:
  ListenComm(Acceptor* acceptor, const Nonce& nonce) : acceptor_(acceptor), nonce_(nonce) {}

  Acceptor* acceptor() const { return acceptor_; }
  const Nonce& nonce() const { return nonce_; }
  bool is_full() const { return arrivals_.size() >= kArrivalsMax; }
  /// A comm that waits for accept(). Owner: the instance.
  void add(RecvComm* arrival) { arrivals_.push_back(arrival); }
  /// nullptr: nobody is there yet.
  RecvComm* take();

 private:
  Acceptor* acceptor_;
  Nonce nonce_;
  std::deque<RecvComm*> arrivals_;
};

/// A receiving comm that was closed here.
struct Departed {
  bool was_in_order;
  uint64_t placed;  ///< messages
  bool is_told;     ///< the peer's host has our last words, or there are none
};

/// The one TCP listener of an instance, on all its ports, which all its listen comms share. It
/// reads every hello, welcomes peers and rejects whoever is none. It keeps its TCP port when the
/// daemon is lost and found again: peers know no other. Thread: under the instance's lock. Owner:
/// the instance.
class Acceptor {
 public:
  /// Fails: nullptr with a line in the log. Blocks while the daemon opens the listener, at most two
  /// seconds.
  static std::unique_ptr<Acceptor> open(Instance* instance);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  Instance* instance() const { return instance_; }
  uint16_t port() const { return port_; }
  lyre_listener* listener() const { return listener_; }
  /// The daemon is lost, and the listener with it.
  void on_detached();
  /// Listens again on the same port. Blocks as open(). Fails: false; try again.
  bool on_attached();

  ListenComm* listen(const Nonce& nonce);
  void close(ListenComm* listen_comm);

  /// Accepts every connection that waits.
  void on_ready();
  /// Rejects connections without a hello in time.
  void expire();

 private:
  struct PendingConnection final : SessionOwner {
    void on_ready() override { acceptor->on_readable(this); }
    Acceptor* acceptor = nullptr;
    Stream stream;
    std::string address;
    std::vector<uint8_t> heard;
    int64_t deadline_ns = 0;
  };

  explicit Acceptor(Instance* instance) : instance_(instance) {}
  /// A LYRE_E code.
  int listen();

  /// May destroy the connection.
  void on_readable(PendingConnection* pending);
  void on_hello(PendingConnection* pending, const Hello& hello);
  void refuse(PendingConnection* pending, AnswerCode code, const std::string& why);
  /// No stranger: a peer that does not know yet that its comm is over here.
  void turn_away(PendingConnection* pending, AnswerCode code, const char* why, uint64_t placed = 0);
  void dismiss(PendingConnection* pending, const std::vector<uint8_t>& words);
  void note_stranger(const PendingConnection& pending, const std::string& why);
  void reject(PendingConnection* pending, const char* why);
  void forget(PendingConnection* pending);
  std::vector<uint8_t> answer(AnswerCode code, const std::string& text, uint64_t placed = 0) const;

  Instance* instance_;
  lyre_listener* listener_ = nullptr;
  uint16_t port_ = 0;  ///< 0: the daemon chooses
  std::vector<std::unique_ptr<PendingConnection>> pending_;
  std::map<Nonce, std::unique_ptr<ListenComm>> listen_comms_;
};

}  // namespace lyre::nccl_adapter
