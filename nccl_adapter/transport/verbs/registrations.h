#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "nccl_adapter/transport/environment.h"
#include "nccl_adapter/transport/verbs/library.h"

namespace lyre::nccl_adapter {

/// NCCL's memory as one RDMA device knows it: registered by page range, once for all that use the
/// same pages, when something is sent from there first, or a receive there is exposed. The device
/// only reads what is sent. Where receives are exposed peers may write: exactly these bytes are
/// registered, with a key of their own.
/// Thread: under the instance's lock. Owner: the device, whose protection domain is borrowed.
class Registrations {
 public:
  Registrations(const VerbsApi& api, ibv_pd* pd) : api_(api), pd_(pd) {}
  ~Registrations() { forget_all(); }
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  /// nullptr: the device does not take it, and bytes of it have to be copied, which is logged. Not
  /// asked again.
  const ibv_mr* find(const Memory* memory);
  /// REQUIRES: nothing that was posted reads it, and no peer is to write there any more.
  void forget(const Memory* memory);
  void forget_all();
  /// Peers write nowhere any more. Nothing is exposed again in what is known now.
  void withdraw_exposed();
  size_t ranges() const { return ranges_.size(); }

 private:
  struct PageRange {
    uintptr_t first;  ///< address
    uintptr_t last;
    bool is_exposed;
    auto operator<=>(const PageRange&) const = default;
  };
  struct Range {
    ibv_mr* mr = nullptr;
    uint32_t users = 0;
  };
  static PageRange pages_of(const Memory& memory);
  void mention_copies(size_t bytes, int code);

  const VerbsApi& api_;
  ibv_pd* pd_;
  std::map<PageRange, Range> ranges_;
  std::unordered_map<const Memory*, const ibv_mr*> known_;
  bool is_mentioned_ = false;
};

}  // namespace lyre::nccl_adapter
