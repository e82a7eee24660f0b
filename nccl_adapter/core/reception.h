#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/core/hello.h"
#include "nccl_adapter/core/stream.h"

namespace lyre::nccl_adapter {

class Instance;
class Reception;
class RecvComm;

/// What NCCL's listen() gives: a nonce under which peers ask at the reception.
/// Thread: under the instance's lock. Owner: the reception.
class ListenComm {
 public:
  ListenComm(Reception* reception, const Nonce& nonce) : reception_(reception), nonce_(nonce) {}

  Reception* reception() const { return reception_; }
  const Nonce& nonce() const { return nonce_; }
  bool is_full() const { return arrivals_.size() >= kArrivalsMax; }
  /// A comm that waits for accept(). Owner: the instance.
  void add(RecvComm* arrival) { arrivals_.push_back(arrival); }
  /// nullptr: nobody is there yet.
  RecvComm* take();

 private:
  Reception* reception_;
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
/// hears every hello, welcomes peers and shows strangers out. It keeps its TCP port when the daemon
/// is lost and found again: peers know no other. Thread: under the instance's lock. Owner: the
/// instance.
class Reception {
 public:
  /// Fails: nullptr with a line in the log. Blocks while the daemon opens the listener, at most two
  /// seconds.
  static std::unique_ptr<Reception> open(Instance* instance);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  Instance* instance() const { return instance_; }
  uint16_t port() const { return port_; }
  lyre_listener* listener() const { return listener_; }
  /// The daemon is lost, and the listener with it.
  void on_detached();
  /// Listens again on the same port. Blocks as open(). Fails: false; try again.
  bool on_attached();

  ListenComm* listen(const Nonce& nonce);
  void close(ListenComm* listen_comm);

  /// Takes in everybody who knocked.
  void on_ready();
  /// Shows out those who said nothing for too long.
  void expire();

 private:
  struct Visitor final : SessionOwner {
    void on_ready() override { reception->hear(this); }
    Reception* reception = nullptr;
    Stream stream;
    std::string address;
    std::vector<uint8_t> heard;
    int64_t deadline_ns = 0;
  };

  explicit Reception(Instance* instance) : instance_(instance) {}
  /// A LYRE_E code.
  int listen();

  /// May destroy the visitor.
  void hear(Visitor* visitor);
  void receive(Visitor* visitor, const Hello& hello);
  void refuse(Visitor* visitor, AnswerCode code, const std::string& why);
  /// No stranger: a peer that does not know yet that its comm is over here.
  void turn_away(Visitor* visitor, AnswerCode code, const char* why, uint64_t placed = 0);
  void dismiss(Visitor* visitor, const std::vector<uint8_t>& words);
  void note_stranger(const Visitor& visitor, const std::string& why);
  void show_out(Visitor* visitor, const char* why);
  void forget(Visitor* visitor);
  std::vector<uint8_t> answer(AnswerCode code, const std::string& text, uint64_t placed = 0) const;

  Instance* instance_;
  lyre_listener* listener_ = nullptr;
  uint16_t port_ = 0;  ///< 0: the daemon chooses
  std::vector<std::unique_ptr<Visitor>> visitors_;
  std::map<Nonce, std::unique_ptr<ListenComm>> listen_comms_;
};

}  // namespace lyre::nccl_adapter
