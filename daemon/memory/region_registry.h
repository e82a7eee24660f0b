#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/background_jobs.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/base/descriptor_queue.h"
#include "daemon/memory/client_memory.h"
#include "daemon/memory/region_window.h"
#include "daemon/workers/worker_set.h"
#include "stack/channel/abi.h"
#include "stack/record/stream.h"

namespace lyre {

/// What became of a request about registered memory.
struct RegionAnswer {
  uint32_t context = 0;
  uint32_t region = 0;          ///< name
  const char* error = nullptr;  ///< why it was not registered; static text
};

/// What the ports do with client memory before and after the workers use it: mapping for DMA takes
/// long, so it is done before a worker needs it. Each function may be empty. Thread: any.
struct PortMapping {
  std::function<void(const uint8_t* base, uint64_t bytes, uint64_t page_bytes)> map;
  std::function<void(const uint8_t* base, uint64_t bytes)> unmap;
  /// Where registered memory will lie: once, before the first map(). Thread: the control thread.
  std::function<void(std::span<const uint8_t> window)> set_window = {};
};

/// How much of the daemon's registered memory one client may have, and all clients of one uid
/// together.
struct RegionLimits {
  uint64_t bytes_per_context_max = 0;
  uint64_t bytes_per_uid_max = UINT64_MAX;
  uint32_t regions_per_uid_max = UINT32_MAX;
};

/// All registered memory: mapped here, known to every worker, unmapped when no worker uses it any
/// more. What takes long at the ports runs in a thread of its own, so that no client waits for the
/// memory of another for longer than its turn. Thread: the control thread. Owner: mappings; they
/// outlive the workers and ports that read them.
class RegionRegistry {
 public:
  using Post = std::function<void(uint32_t worker, const worker::Command&)>;
  using ArenaDone = std::function<void(uint32_t context)>;

  RegionRegistry(uint32_t worker_count, const RegionLimits& limits, PortMapping ports, Post post,
                 ArenaDone arena_done = {});
  ~RegionRegistry();
  RegionRegistry(const RegionRegistry&) = delete;
  RegionRegistry& operator=(const RegionRegistry&) = delete;

  /// A context attaches: its memory counts for `user` (DomainRules::user_of()), whose clients may
  /// have `bytes_of_user_max` where that is less than what a uid may.
  void set_owner(uint32_t context, uint64_t user, uint64_t bytes_of_user_max = UINT64_MAX) {
    usage_[context].user = user;
    usage_[context].bytes_of_user_max = bytes_of_user_max;
  }
  /// The context's arena, which the daemon reads only: as registered memory, it becomes zeros where
  /// the system has no page for it. Fails: as RegionWindow::reserve() and guard().
  Status guard_arena(uint32_t context, const uint8_t* arena, uint64_t bytes);
  /// Maps the arena for the ports. True: it is done. False: a thread does it, and poll() calls
  /// `arena_done` then, before it tells workers of memory that the context registered meanwhile.
  bool map_arena(uint32_t context, const uint8_t* arena, uint64_t bytes, uint64_t page_bytes);
  /// The same for the opposite.
  bool unmap_arena(uint32_t context, const uint8_t* arena, uint64_t bytes);
  /// Whether map_arena() would do it now.
  bool is_arena_mapped_at_once(uint64_t bytes) const {
    return !ports_.map || is_done_at_once(bytes, kMapAtOnceArenaBytesMax);
  }
  /// Maps the memory and tells every worker; an answer follows when all know it. Takes `memory` if
  /// it succeeds. Fails: EDQUOT the share of the context or of its uid is used up, ENOSPC that of
  /// all clients, or the errno of the mapping.
  Result<uint32_t> add(uint32_t context, ClientMemory&& memory);
  /// Tells every worker to stop using it; an answer follows when all have.
  /// Fails: ENOENT the context has no such region, or its removal has begun.
  Status remove(uint32_t context, uint32_t name);
  /// No worker uses the context any more. Its arena is guarded no longer.
  void forget_context(uint32_t context);

  /// Closes the file of a client's memory. Large ones are closed by a thread: when nobody else has
  /// the file, its pages end with it, which takes some 0.2 s for each GiB. `counted_bytes`: what
  /// context_bytes_to_free() tells of it meanwhile.
  void close_memory(uint32_t context, OwnedFd file, uint64_t bytes, uint64_t counted_bytes = 0);
  /// The same after its pages were freed, for the memory of a context: see free_pages().
  void free_memory(const BackgroundJobs::Owner& owner, OwnedFd file, uint64_t bytes,
                   uint64_t counted_bytes);
  /// Of contexts of the user whose memory the thread has not closed yet.
  uint64_t context_bytes_to_free(uint64_t user) const { return frees_.undone_bytes_of(user); }

  /// While true, mapping and unmapping that take long wait for a port that is opened again, which
  /// needs that none is under way.
  void let_ports_go_first(bool do_ports_wait) { jobs_.set_paused(do_ports_wait); }
  /// Continues with regions whose mapping or unmapping the other thread has finished.
  void poll();
  /// A worker answered about a region.
  void on_reply(uint32_t worker, const worker::Reply& reply);
  std::vector<RegionAnswer> take_answers() { return std::exchange(answers_, {}); }
  /// A context whose registered memory or arena lost pages: once for each. UINT32_MAX: none.
  uint32_t take_faulted_context();

  /// True while memory is being registered, a registration is being taken back, or an arena is
  /// being mapped.
  bool is_registering() const;
  /// Appends a kRegion for each region that a worker may use, and its file's descriptor, which
  /// stays open as long as this object. Returns how many. REQUIRES: !is_registering().
  uint32_t write_handover(record::Writer& out, std::vector<int>& descriptors) const;
  /// Goes on with `count` regions of such a registry. `uses`: uses(). REQUIRES: nothing was added,
  /// and set_owner() was called for each context.
  /// Fails: the records are not right, or the memory cannot be mapped.
  Status take_over(uint32_t count, uint32_t uses, record::Reader& in, DescriptorQueue& descriptors);
  /// kAddRegion for each region that the worker may use. `knows` says whether it has the context.
  void append_commands(uint32_t worker, const std::function<bool(uint32_t context)>& knows,
                       std::vector<worker::Command>& out) const;
  uint32_t uses() const { return uses_; }

  uint32_t count(uint32_t context) const { return usage_[context].regions; }
  uint32_t mapped_count() const { return window_ ? window_->mapped_count() : 0; }

 private:
  struct Region {
    uint32_t name = 0;
    uint32_t context = 0;
    uint64_t user = UINT64_MAX;  ///< for whom it counts until it is unmapped
    uint8_t* base = nullptr;
    OwnedFd file;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t page_bytes = 0;
    bool is_leaving = false;
    bool is_refused = false;
    bool is_at_job = false;  ///< the other thread maps or unmaps it
    bool is_dropped = false;
    bool is_unmapped = false;  ///< the unmapping for the ports is done, or under way in a thread
    std::bitset<channel::kWorkersMax> pending;  ///< workers that have not answered
  };
  struct Usage {
    uint64_t user = UINT64_MAX;
    uint64_t bytes_of_user_max = UINT64_MAX;
    uint32_t regions = 0;
    uint64_t bytes = 0;
    const uint8_t* arena = nullptr;  ///< where it is guarded
    bool is_arena_at_job = false;    ///< the other thread maps or unmaps it
  };

  Status open_window();
  Status check_share(uint32_t context, uint64_t bytes) const;
  Status check_share_of_user(const Usage& owner, uint64_t bytes) const;
  void begin_removal(Region& region);
  void keep(uint32_t index, uint32_t name, uint32_t context, uint8_t* base, ClientMemory memory);
  Status take_over_one(record::Reader& in, DescriptorQueue& descriptors);
  worker::Command command_of(const Region& region, worker::Command::Kind kind) const;
  bool is_done_at_once(uint64_t bytes, uint64_t bytes_max) const;
  bool run_for_arena(uint32_t context, uint64_t bytes, std::function<void()> job);
  void map_for_ports(uint32_t index);
  void map_now(const uint8_t* base, uint64_t bytes, uint64_t page_bytes) const;
  void on_job_done(uint32_t index);
  static BackgroundJobs::Owner owner_of(const Region& region);
  void close_memory(const BackgroundJobs::Owner& owner, OwnedFd file, uint64_t bytes,
                    uint64_t counted_bytes, void (*before)(int fd) = nullptr);
  void drop(uint32_t index);
  void unmap(uint32_t index);
  void forget(uint32_t index);
  void tell_workers(Region& region, worker::Command::Kind kind);

  const uint32_t worker_count_;
  const RegionLimits limits_;
  const PortMapping ports_;
  const Post post_;
  ArenaDone arena_done_;                          ///< none while this object ends
  std::unique_ptr<RegionWindow> window_;          ///< made with the first arena or region
  std::vector<std::unique_ptr<Region>> regions_;  ///< by index less kContextsMax
  std::vector<uint32_t> free_;                    ///< indices, the one to be used next at the end
  std::vector<Usage> usage_;                      ///< by context
  uint32_t uses_ = 0;
  std::vector<RegionAnswer> answers_;
  uint64_t at_once_bytes_ = 0;          ///< mapped and unmapped since the last poll()
  std::atomic<bool> is_ending_{false};  ///< read by the other thread: nothing more is mapped
  BackgroundJobs jobs_;                 ///< by index; arenas by regions_.size() plus context
  BackgroundJobs frees_;                ///< without names: nothing follows; bytes of contexts count
};

}  // namespace lyre
