#pragma once

#include <string>

#include "libclient/attach.h"
#include "libclient/resources.h"
#include "stack/base/ip_address.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"

namespace lyre::test {

/// A client of a real daemon that writes submissions for its first worker without liblyre, so
/// nothing checks them. Thread: one. Fails: the constructor throws std::runtime_error.
class RawClient {
 public:
  explicit RawClient(const std::string& socket);

  /// Waits for room in the ring. False when the daemon has closed the connection, or the worker no
  /// longer reads the ring.
  bool submit(const channel::Submission& entry);
  bool listen(uint16_t port);
  bool connect(const Endpoint& remote);
  bool send(channel::SessionName session, uint32_t bytes, uint32_t region = 0);
  bool tell(channel::Op op, channel::SessionName session);

  /// The name of the region, for send(). 0: refused.
  uint32_t register_file(int file, uint64_t bytes);

  /// Fills the ring with copies of `entry`, and waits for nothing.
  void fill(const channel::Submission& entry);
  struct Ends {
    channel::SessionName near, far;
  };
  /// Opens a session with itself. REQUIRES: it listens on `own`. Generation 0: it failed.
  Ends connect_to_itself(const Endpoint& own);

  /// Waits for the next completion. kNone when none arrived in time.
  channel::Completion next();
  /// Takes all completions that are there, and gives back nothing that they lend. Returns how many
  /// there were.
  size_t take_all();
  /// True when the daemon closes the connection, as it does with a client that breaks a rule.
  bool await_hang_up();

 private:
  bool has_hung_up();
  void ring_bell();
  bool open(channel::Op op, const Endpoint& local, const Endpoint& remote);

  client::Attachment attachment_;
  client::Mapping memory_;
  channel::SubmissionProducer submissions_;
  channel::CompletionConsumer completions_;
};

}  // namespace lyre::test
