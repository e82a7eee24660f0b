#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/descriptor_queue.h"
#include "daemon/base/owned_fd.h"
#include "daemon/base/shared_memory.h"
#include "daemon/config/config.h"
#include "daemon/control/capture_registry.h"
#include "daemon/control/left_memory.h"
#include "daemon/memory/region_registry.h"
#include "daemon/protocol/client_identity.h"
#include "daemon/protocol/handover_records.h"
#include "daemon/workers/worker_set.h"
#include "stack/base/page_size.h"
#include "stack/record/stream.h"

namespace lyre {

/// What the clients of a domain may have together.
struct DomainLimits {
  uint32_t contexts_max = UINT32_MAX;
  uint64_t registered_bytes_max = UINT64_MAX;
};

struct RegistryOptions {
  uint32_t contexts_max = 0;
  uint32_t contexts_per_uid_max = UINT32_MAX;
  uint64_t arena_bytes_max = 0;
  uint64_t arena_bytes_per_uid_max = UINT64_MAX;  ///< with rings and copy areas
  RegionLimits regions;
  /// By DomainRules::index, for clients that are taken over; none: unlimited.
  std::vector<DomainLimits> domains;
  Lend lend = Lend::kDomain;         ///< kDomain: to every client
  std::optional<uint32_t> lend_uid;  ///< of kUid
  PortMapping ports;
  uint64_t page_bytes = system_page_bytes();
  bool allocates_copy_areas = accounts_strictly();
};

struct AttachTerms {
  ClientIdentity identity;
  uint16_t abi_version = channel::kAbiVersions.max;
  uint64_t arena_bytes = 0;  ///< 0: the default
  std::string label;
  const worker::DomainRules* domain = nullptr;  ///< outlives the workers
  uint32_t contexts_of_domain_max = UINT32_MAX;
  uint64_t registered_bytes_of_domain_max = UINT64_MAX;
};

/// A client's new context. Owner: the registry; descriptors are borrowed until the next detach().
struct ContextGrant {
  uint32_t index = 0;
  uint64_t generation = 0;
  uint64_t context_bytes = 0;
  bool is_lent_to = false;
  int memory_fd = -1;
  int wake_fd = -1;               ///< readable when a worker wakes the client
  std::vector<int> worker_rings;  ///< eventfd of each worker
};

/// A context whose client has to be disconnected.
struct Expulsion {
  uint32_t context = 0;
  const char* reason = "";
};

/// All contexts of the daemon and their memory. Nothing blocks: commands for a full inbox are kept
/// here and posted by poll(). Thread: the control thread. Owner: memory lives until every worker
/// has answered kDetached, or until this object ends, which needs workers and ports that are gone.
/// Afterwards it counts until no client has it open.
class ContextRegistry {
 public:
  ContextRegistry(WorkerSet& workers, const RegistryOptions& options);
  ~ContextRegistry();
  ContextRegistry(const ContextRegistry&) = delete;
  ContextRegistry& operator=(const ContextRegistry&) = delete;

  /// Makes a context and tells every worker: of a large arena later, when a thread has mapped it
  /// for the ports. Fails: EUSERS too many contexts, of all clients or of the uid, EINVAL arena too
  /// large, EDQUOT too large beside other contexts of the uid, EAGAIN see refuse_slow_arenas(),
  /// errno of what the system refused.
  Result<ContextGrant> attach(const AttachTerms& terms);
  /// Tells every worker to detach; the memory is freed when all have. Sessions are closed in order,
  /// or reset. REQUIRES: attached.
  void detach(uint32_t context, bool resets_sessions);
  /// While true, arenas that a thread would map are refused: nothing else would end their mapping.
  void refuse_slow_arenas(bool is_refused) { refuses_slow_arenas_ = is_refused; }
  /// Registered memory. Take its answers after poll().
  RegionRegistry& regions() { return regions_; }
  /// Captures of ports.
  CaptureRegistry& captures() { return captures_; }

  /// Posts waiting commands and takes the workers' replies. Appends contexts that broke a rule to
  /// `out`: the caller disconnects and detaches them.
  void poll(std::vector<Expulsion>& out);
  /// Contexts that were detached, and of which no worker and no port reads memory any more: each
  /// once, since the last call.
  std::vector<uint32_t> take_detached() { return std::exchange(detached_, {}); }

  /// Asks every worker to reset its sessions; poll() takes the answers.
  void shut_down();
  bool is_shut_down() const { return shut_down_count_ == workers_.count(); }

  /// Appends what another process needs to go on with all contexts and their memory, and the
  /// descriptors of it, which stay open as long as this object. A kRegistry comes first: `record`,
  /// completed (protocol/handover_records.h). REQUIRES: no command waits, and no memory is being
  /// registered.
  void write_handover(RegistryRecord record, record::Writer& out,
                      std::vector<int>& descriptors) const;
  /// Goes on with such contexts, under the limits of this configuration; `record` is what was read
  /// of kRegistry. `domains`: what DomainRules name. REQUIRES: nothing was attached yet. Fails: the
  /// records are not right, the channel's version of a client is not spoken here, or the system
  /// refused something.
  Status take_over(const RegistryRecord& record, std::span<const worker::DomainRules> domains,
                   record::Reader& in, DescriptorQueue& descriptors);
  /// For Worker::take_over(): the worker's clients and their memory.
  std::vector<worker::Command> handover_commands(uint32_t worker) const;
  bool is_attached(uint32_t context) const;

  uint32_t attached_count() const { return attached_count_; }
  uint32_t attached_count_of(const worker::DomainRules& domain) const;
  /// Without those that were taken over.
  uint64_t attached_total() const { return next_generation_ - first_generation_; }
  uint64_t attached_total(const worker::DomainRules& domain) const;
  /// Contexts whose memory exists: attached, or not detached by every worker yet.
  uint32_t held_count() const;
  /// True when commands wait for room in an inbox.
  bool has_waiting() const;

 private:
  struct Context;

  Status check_contexts(const AttachTerms& terms) const;
  Status check_memory(const AttachTerms& terms, uint64_t arena_bytes) const;
  Result<std::unique_ptr<Context>> make_context(const AttachTerms& terms, uint64_t arena_bytes);
  Status allocate_written(const Context& context) const;
  Status make_rings(Context& context);
  void fill_header(Context& context) const;
  worker::ClientLimits limits_of(const AttachTerms& terms) const;
  worker::Command attach_command(Context& context, uint32_t worker) const;
  void write_client(const Context& context, record::Writer& out,
                    std::vector<int>& descriptors) const;
  Status take_over_client(std::span<const worker::DomainRules> domains, record::Reader& in,
                          DescriptorQueue& descriptors);
  Status check_client(const ClientRecord& record,
                      std::span<const worker::DomainRules> domains) const;
  Status take_over_memory(const ClientRecord& record, Context& context,
                          DescriptorQueue& descriptors);
  Status watch_rings(const Context& context);
  void post(uint32_t worker, const worker::Command& command);
  void post_waiting();
  void on_reply(uint32_t worker, const worker::Reply& reply, std::vector<Expulsion>& out);
  void on_detached(uint32_t worker, uint32_t index);
  void tell_workers(Context& context);
  void on_arena_done(uint32_t index);
  void drop(uint32_t index);
  void forget(uint32_t index);
  void expel(uint32_t index, const char* reason, std::vector<Expulsion>& out);

  WorkerSet& workers_;         ///< ends earlier
  const uint64_t copy_bytes_;  ///< of a new context; one that was taken over has its own
  RegistryOptions options_;
  std::vector<std::unique_ptr<Context>> contexts_;  ///< by index
  /// By worker: at most two a context, one a region, and two a capture.
  std::vector<std::deque<worker::Command>> waiting_;
  RegionRegistry regions_;
  CaptureRegistry captures_;
  LeftMemory left_;
  std::vector<uint32_t> detached_;  ///< see take_detached()
  uint64_t first_generation_ = 1;   ///< of this process
  uint64_t next_generation_ = 1;
  std::map<const worker::DomainRules*, uint64_t> attached_totals_;  ///< by domain
  uint32_t attached_count_ = 0;
  uint32_t shut_down_count_ = 0;
  bool refuses_slow_arenas_ = false;
};

}  // namespace lyre
