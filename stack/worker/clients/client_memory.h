#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "stack/base/buf_ref.h"
#include "stack/base/index_list.h"
#include "stack/channel/abi.h"
#include "stack/worker/inbox.h"

namespace lyre::worker {

/// The memory that clients of one worker send from, by index in the ports' table of regions: the
/// arena of context n is region n, registered memory has the indices from kContextsMax on.
/// Invariants: a registered region is in the list of its context; a leaving one is also in the
/// queue of those that leave, or in that of those that are held back. What ports and send queues
/// hold of a region is the caller's business.
/// Owner: takes its memory at construction; that of unused indices stays untouched. *Borrows* the
/// memory of clients. Thread: the worker.
class ClientMemory {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Region {
    uint32_t name = 0;  ///< with which the client names it; 0: an arena, or the index is free
    uint32_t context = kNone;
    const uint8_t* base = nullptr;
    uint64_t bytes = 0;
    bool is_leaving = false;     ///< nothing more is sent from it
    bool is_held_back = false;   ///< a port held a piece of it at the last look
    uint32_t look = 0;           ///< held back: the number of that look
    uint32_t searched_from = 0;  ///< leaving: connections below this do not send from it
    IndexLink link;              ///< in the list of its context
    IndexLink leaving_link;      ///< in one of the two queues
  };

  ClientMemory();

  const Region& operator[](uint32_t index) const { return regions_[index]; }
  bool is_free(uint32_t index) const { return regions_[index].base == nullptr; }

  void add_arena(uint32_t context, const uint8_t* base, uint64_t bytes) {
    regions_[context] = {.context = context, .base = base, .bytes = bytes};
  }
  /// REQUIRES: it is not held back.
  void remove_arena(uint32_t context) { regions_[context] = {}; }

  /// REQUIRES: the index in `name` is free, and not of an arena.
  void add(uint32_t name, uint32_t context, const uint8_t* base, uint64_t bytes);
  /// Forgets the region, leaving or not. REQUIRES: it is registered memory.
  void remove(uint32_t index);
  /// The first registered region of the context; kNone when it has none.
  uint32_t first_of(uint32_t context) const { return by_context_[context].front(); }
  uint32_t registered_count_of(uint32_t context) const { return by_context_[context].size(); }
  uint64_t registered_bytes_of(uint32_t context) const { return registered_bytes_[context]; }
  /// Calls visit(Region) for the registered memory of the context.
  template <typename Visit>
  void for_each_of(uint32_t context, Visit visit) const {
    for (uint32_t i = by_context_[context].front(); i != kNone;
         i = by_context_[context].next(regions_, i)) {
      visit(regions_[i]);
    }
  }

  /// Nothing more can be sent from the region, which joins those that leave. False: there is no
  /// region of that name. REQUIRES: it does not leave yet.
  bool try_begin_leaving(uint32_t name);
  /// Regions that leave and are not held back.
  uint32_t leaving_count() const { return leaving_.size(); }
  /// The region among them that was given first. REQUIRES: leaving_count() is not 0.
  Region& next_leaving();

  /// The region waits for a port: one that leaves, or memory of a context that is being detached.
  /// `look` is the number of the look at the ports that found it held.
  void hold_back(uint32_t index, uint32_t look);
  /// Ends the region's wait for a port.
  void let_go(uint32_t index);
  bool is_held_back(uint32_t index) const { return regions_[index].is_held_back; }
  uint32_t held_back_count() const { return held_back_.size(); }
  /// Whether some region was not looked at in the look of this number.
  bool has_unlooked(uint32_t look) const {
    return !held_back_.empty() && regions_[held_back_.front()].look != look;
  }
  /// The next such region, which counts as looked at. REQUIRES: has_unlooked().
  uint32_t next_unlooked(uint32_t look);

  /// Where a kSend of the context points. Returns nullptr, or the rule that the entry breaks.
  /// `out` is left empty where the region was deregistered while the entry was under way.
  const char* locate(uint32_t context, const channel::Submission& entry,
                     std::optional<BufRef>& out) const;
  /// REQUIRES: a piece that locate() gave, of a region that was not removed since.
  const uint8_t* bytes_of(const BufRef& piece) const {
    return regions_[piece.region].base + piece.offset;
  }

 private:
  std::unique_ptr<Region[], void (*)(void*)> regions_;
  std::vector<IndexList<Region, &Region::link>> by_context_;
  std::vector<uint64_t> registered_bytes_;  ///< by context
  IndexList<Region, &Region::leaving_link> leaving_;
  IndexList<Region, &Region::leaving_link> held_back_;
};

}  // namespace lyre::worker
