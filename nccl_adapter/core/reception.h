#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/core/comm.h"
#include "nccl_adapter/core/hello.h"
#include "nccl_adapter/core/stream.h"

namespace lyre::nccl_adapter {

class Instance;
class Reception;

/// A peer that said hello and was welcomed: a comm as soon as NCCL asks for it.
struct Arrival {
  Hello hello;
  Stream stream;
  std::string address;
};

/// What NCCL's listen() gives: a nonce under which peers ask at the reception.
/// Thread: under the instance's lock. Owner: the reception.
class ListenComm {
 public:
  ListenComm(Reception* reception, const Nonce& nonce) : reception_(reception), nonce_(nonce) {}

  Reception* reception() const { return reception_; }
  const Nonce& nonce() const { return nonce_; }
  bool is_full() const { return arrivals_.size() >= kArrivalsMax; }
  void add(Arrival arrival) { arrivals_.push_back(std::move(arrival)); }
  /// False: nobody is there yet.
  bool take(Arrival* out);

 private:
  Reception* reception_;
  Nonce nonce_;
  std::deque<Arrival> arrivals_;
};

/// The one TCP listener of an instance on a port, which all its listen comms share. It hears every
/// hello, welcomes peers and shows strangers out.
/// Thread: under the instance's lock. Owner: the instance.
class Reception {
 public:
  /// Blocks while the daemon opens the listener, at most two seconds.
  /// Fails: nullptr with a line in the log.
  static std::unique_ptr<Reception> open(Instance* instance, const lyre_port& port);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  Instance* instance() const { return instance_; }
  const lyre_addr& address() const { return address_; }
  lyre_listener* listener() const { return listener_; }

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

  Reception(Instance* instance, lyre_listener* listener, const lyre_addr& address)
      : instance_(instance), listener_(listener), address_(address) {}

  /// May destroy the visitor.
  void hear(Visitor* visitor);
  void receive(Visitor* visitor, const Hello& hello);
  void refuse(Visitor* visitor, AnswerCode code, const std::string& why);
  void show_out(Visitor* visitor, const char* why);
  void forget(Visitor* visitor);
  void answer(Stream* stream, AnswerCode code, const std::string& text);

  Instance* instance_;
  lyre_listener* listener_;
  lyre_addr address_;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  std::map<Nonce, std::unique_ptr<ListenComm>> listen_comms_;
};

}  // namespace lyre::nccl_adapter
