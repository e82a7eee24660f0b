#include "tools/nccl_emulator/staging.h"

#include <utility>

#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

struct Region {
  size_t offset;
  size_t bytes;
};

constexpr size_t kLlBytes = kSlots * kLlSlotBytes;
constexpr size_t kSimpleBytes = kSlots * kSimpleSlotBytes;
constexpr std::array<Region, 3> kLayout{
    {{0, kLlBytes}, {kLlBytes, kLl128RegionBytes}, {kLlBytes + kLl128RegionBytes, kSimpleBytes}}};
constexpr size_t kStagingBytes = kLlBytes + kLl128RegionBytes + kSimpleBytes;

constexpr size_t region_index(Protocol protocol) { return protocol == Protocol::kLl ? 0 : 2; }

}  // namespace

void Staging::create(NetPlugin& plugin, void* comm) {
  pages_ = SharedPages(kStagingBytes);
  for (size_t i = 0; i < kRegions; ++i) {
    require_success(plugin.reg_mr(comm, pages_.data() + kLayout[i].offset, kLayout[i].bytes,
                                  nccl_abi::kPtrHost, &mhandles_[i]),
                    "regMr");
  }
}

void Staging::destroy(NetPlugin& plugin, void* comm) {
  for (void*& mhandle : mhandles_) {
    if (mhandle == nullptr) continue;
    require_success(plugin.dereg_mr(comm, std::exchange(mhandle, nullptr)), "deregMr");
  }
  pages_ = SharedPages();
}

uint8_t* Staging::slots(Protocol protocol) const {
  return pages_.data() + kLayout[region_index(protocol)].offset;
}

void* Staging::mhandle(Protocol protocol) const { return mhandles_[region_index(protocol)]; }

}  // namespace lyre::nccl_emulator
