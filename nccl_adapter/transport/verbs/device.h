#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/transport/verbs/library.h"
#include "nccl_adapter/transport/verbs/ports.h"
#include "nccl_adapter/transport/verbs/registrations.h"

namespace lyre::nccl_adapter {

class QueuePair;

/// An open RDMA device with a port that can be used: context, protection domain, one completion
/// queue, and what is registered. It outlives its queue pairs. One that reported trouble is lost:
/// its queue pairs fail, and it is opened anew.
/// Thread: under the instance's lock. Owner: VerbsDevices.
class VerbsDevice {
 public:
  /// `device` is borrowed for the call. Fails: nullptr, and `*why` says so.
  static std::unique_ptr<VerbsDevice> open(const VerbsApi& api, ibv_device* device,
                                           const Settings& settings, std::string* why);
  /// REQUIRES: no queue pair is left.
  ~VerbsDevice();
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;

  const std::string& name() const { return name_; }
  /// Those that can be used, one at least. Owner: valid until read_events().
  const std::vector<VerbsPort>& ports() const { return ports_; }
  bool is(const ibv_device* device) const { return context_->device == device; }
  bool is_lost() const { return !why_lost_.empty(); }
  /// Owners of its queue pairs are notified by the next poll().
  void lose(const std::string& why);
  size_t queue_pairs() const { return queue_pairs_.size(); }
  Registrations& registrations() { return registrations_; }

  /// Hands a bounded number of completions to their queue pairs, whose owners are notified. True if
  /// one was. May destroy queue pairs.
  bool poll();
  /// Reads the device's events, and looks whether it is there. A port that is down loses its queue
  /// pairs, the last one that can be used the device. Owners are notified by the next poll().
  void read_events();

  // ---- For queue pairs ----

  const VerbsApi& api() const { return api_; }
  ibv_pd* pd() const { return pd_; }
  ibv_cq* completions() const { return cq_; }
  /// Where completions that name the number go from now on: in the upper half of wr_id. Entries of
  /// a destroyed queue pair lead nowhere. 0: the completion queue has no room for so many entries.
  /// `port` is the one that it uses.
  uint32_t add(QueuePair* queue_pair, uint8_t port, uint32_t entries);
  void remove(uint32_t number, uint32_t entries);

 private:
  struct User {
    QueuePair* queue_pair;
    uint8_t port;
  };

  VerbsDevice(const VerbsApi& api, const Settings& settings, ibv_context* context, ibv_pd* pd,
              std::vector<VerbsPort> ports);
  bool create_completions(std::string* why);
  QueuePair* find(uint64_t work_request) const;
  bool collect();
  void on_event(const ibv_async_event& event);
  void lose_port(int number);
  /// Those of the port; 0: all.
  void fail_queue_pairs(const std::string& why, int port);
  void read_ports();

  const VerbsApi& api_;
  Settings settings_;
  ibv_context* context_;
  ibv_pd* pd_;
  std::string name_;
  std::vector<VerbsPort> ports_;
  Registrations registrations_;
  ibv_cq* cq_ = nullptr;
  uint32_t entries_ = 0;       ///< of the completion queue
  uint32_t entries_used_ = 0;  ///< promised to queue pairs
  uint32_t last_number_ = 0;
  std::map<uint32_t, User> queue_pairs_;  ///< in order of making
  std::vector<uint32_t> touched_;         ///< whose owners are to be notified
  bool was_there_;                        ///< a host without /sys cannot say
  std::string why_lost_;
};

}  // namespace lyre::nccl_adapter
