#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "nccl_adapter/comm/recv_comm.h"
#include "nccl_adapter/transport/acceptor.h"

namespace lyre::nccl_adapter {

class Receivers;
class SendComm;

/// What NCCL's listen() gives: a nonce that a peer's hello names, and the comms that wait for
/// accept(). Thread: under the instance's lock. Owner: the receivers.
class ListenComm {
 public:
  explicit ListenComm(const Nonce& nonce) : nonce_(nonce) {}

  const Nonce& nonce() const { return nonce_; }
  bool is_full() const { return arrivals_.size() >= kArrivalsMax; }
  /// A comm that waits for accept(). Owner: the instance.
  void add(RecvComm* arrival) { arrivals_.push_back(arrival); }
  /// nullptr: no comm waits.
  RecvComm* take();

 private:
  Nonce nonce_;
  std::deque<RecvComm*> arrivals_;
};

/// The owner of the comms.
class CommOwner {
 public:
  virtual void adopt(std::unique_ptr<Comm> comm) = 0;
  /// nullptr: no comm of that id sends from here.
  virtual SendComm* find_sender(const Nonce& id) = 0;

 protected:
  ~CommOwner() = default;
};

/// The listen comms and the receiving comms of an instance, and how the closed ones ended: decides
/// what becomes of a stream whose hello is complete.
/// Thread: under the instance's lock.
class Receivers final : public HelloReceiver {
 public:
  Receivers(Environment* environment, CommOwner* owner)
      : environment_(environment), owner_(owner) {}

  ListenComm* listen(const Nonce& nonce);
  /// The caller closes the comms that were not accepted: take() them before.
  void close(ListenComm* listen_comm) { listen_comms_.erase(listen_comm->nonce()); }
  size_t listening() const { return listen_comms_.size(); }

  Decision on_hello(const Hello& hello, const std::string& address, Stream* stream,
                    std::span<const uint8_t> welcome) override;
  /// The comm is about to be closed: how it ended is kept for a peer that dials again. Comms that
  /// do not receive are ignored.
  void on_close(Comm* comm);
  /// Some peer may still ask how its comm ended.
  bool is_any_untold() const;

 private:
  /// A receiving comm that was closed here.
  struct Departed {
    bool was_in_order;
    uint64_t placed;  ///< messages
    bool is_told;     ///< the peer's host has our last words, or nobody waits for them
  };

  Decision redial(const Hello& hello);
  Decision admit(const Hello& hello, const std::string& address, RecvComm** out);

  Environment* environment_;
  CommOwner* owner_;
  std::map<Nonce, std::unique_ptr<ListenComm>> listen_comms_;
  std::map<Nonce, RecvComm*> comms_;
  std::map<Nonce, Departed> departed_;
  std::deque<Nonce> departed_order_;
};

}  // namespace lyre::nccl_adapter
