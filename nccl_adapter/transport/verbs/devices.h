#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/transport/verbs/device.h"

namespace lyre::nccl_adapter {

struct QueuePairTerms;

/// A port, and its address from which a certain peer is spoken to.
struct VerbsPlace {
  VerbsDevice* device;
  const VerbsPort* port;
  Gid gid;
  uint8_t timeout;  ///< of an acknowledgement: 4.096 us * 2^timeout
  uint8_t traffic_class;
  uint8_t service_level;
  bool is_of_rail = false;  ///< the port belongs to the rail that was asked for
  bool is_near = false;     ///< the address is in the peer's network, as far as addresses show it
};

/// What a queue pair can be made on, in the order in which it is tried.
struct VerbsChoice {
  std::vector<VerbsPlace> places;
  size_t best = 0;         ///< so many, all in front, are equally good: lanes take them in turn
  size_t queue_pairs = 0;  ///< of offers: how many a comm shall have
};

/// The RDMA devices of this host that can be used, as far as they are there.
/// Thread: under the instance's lock. Owner: the instance.
class VerbsDevices {
 public:
  VerbsDevices(const VerbsApi& api, const Settings& settings) : api_(api), settings_(settings) {}

  /// Opens what is there and not open, and closes what is lost and has no queue pair left. Looks no
  /// more often than every kVerbsLookNs, and not while completions are handed out.
  void look(int64_t now_ns);
  /// The ports that can speak to `remote`, in the order of their names. Owner: valid until the next
  /// look(), as for the next two.
  std::vector<VerbsPlace> places(const Address& remote) const;
  /// Where rail number `rail` of `rails` makes the queue pairs that it offers to `remote`. The best
  /// are the rail's ports; a rail that has none shares one. The other ports, and further addresses
  /// of all, follow: for when those do not work.
  VerbsChoice offers(size_t rail, std::span<const lyre_port> rails, const Address& remote) const;
  /// The same for a queue pair that GID `remote` offered to that rail. The best are the ports in
  /// the network of that GID, and of these the rail's.
  VerbsChoice answers(size_t rail, std::span<const lyre_port> rails, const Address& remote) const;
  /// A port that can be used has the address, and its device is not lost.
  bool have(const Address& gid) const;
  /// Why there is no device that is open, or the last one is not used; empty: all that are there
  /// can be used.
  const std::string& why_not() const { return why_not_; }

  /// Takes completions, and now and then events, and closes what is lost. True if there were
  /// completions.
  bool progress(int64_t now_ns);
  size_t queue_pairs() const;
  /// Connects the queue pair to the one that the peer described. Where that failed, it is not tried
  /// again at once between the same two addresses. Fails: false, and `*why` says so.
  bool connect(QueuePair& made, const QueuePairTerms& peer, int64_t now_ns, std::string* why);
  /// NCCL deregistered it. REQUIRES: nothing that was posted reads it.
  void forget(const Memory* memory);

 private:
  /// A device that cannot be used.
  struct Refused {
    int64_t until_ns;
    std::string why;
  };
  struct FailedPath {
    uint32_t failures = 0;  ///< in a row
    int64_t until_ns = 0;
    std::string why;
  };

  std::vector<VerbsPlace> ranked(size_t rail, std::span<const lyre_port> rails,
                                 const Address& remote) const;
  void add_addresses(const Address& remote, std::vector<VerbsPlace>* places) const;
  bool is_open(const ibv_device* device) const;
  void open(ibv_device* device, int64_t now_ns);
  void drop_lost(std::span<ibv_device* const> there);
  void close_lost();

  const VerbsApi& api_;
  Settings settings_;
  std::vector<std::unique_ptr<VerbsDevice>> devices_;
  std::map<std::string, Refused> refused_;                          ///< by name
  std::map<std::pair<Address, Address>, FailedPath> failed_paths_;  ///< by own and remote GID
  std::string why_not_;
  int64_t looked_ns_ = INT64_MIN / 2;
  int64_t events_ns_ = 0;
  bool is_in_progress_ = false;  ///< devices must stay where they are
};

}  // namespace lyre::nccl_adapter
