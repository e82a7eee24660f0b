#include "tools/lyre/allreduce/connection.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "tools/lyre/allreduce/failure.h"

namespace lyre::allreduce {
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

SharedPages::SharedPages(size_t bytes) : bytes_(bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) {
    throw Failure("cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  }
  data_ = static_cast<uint8_t*>(pages);
}

SharedPages::SharedPages(SharedPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedPages& SharedPages::operator=(SharedPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedPages::~SharedPages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void Staging::create(NetPlugin& plugin, void* comm) {
  pages_ = SharedPages(kStagingBytes);
  for (size_t i = 0; i < kRegions; ++i) {
    require_success(
        plugin.reg_mr(comm, pages_.data() + kLayout[i].offset, kLayout[i].bytes, &mhandles_[i]),
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

}  // namespace lyre::allreduce
