#include "tools/lyre/telemetry_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>

namespace lyre::tools {
namespace {

using nccl_abi::CommSlot;
using nccl_abi::CommView;

static_assert(offsetof(CommSlot, sequence) == 0 && offsetof(CommSlot, is_used) == 4);

}  // namespace

// O_NONBLOCK: otherwise the open of a FIFO without a writer would not return.
TelemetryFile::TelemetryFile(const std::string& path)
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)),
      is_denied_(fd_ < 0 && errno == EACCES) {
  if (fd_ < 0 || is_genuine()) return;
  ::close(fd_);
  fd_ = -1;
}

bool TelemetryFile::is_genuine() {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return false;
  owner_ = status.st_uid;
  const auto bytes = static_cast<uint64_t>(status.st_size);
  return S_ISREG(status.st_mode) && nccl_abi::is_telemetry_size(bytes) &&
         read_at(0, &header_, sizeof header_) && header_.magic == nccl_abi::kTelemetryMagic &&
         (!is_known() || nccl_abi::are_telemetry_slots_within(header_, bytes));
}

TelemetryFile::~TelemetryFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool TelemetryFile::read_at(uint64_t offset, void* out, size_t bytes) const {
  ssize_t done = 0;
  do {
    done = ::pread(fd_, out, bytes, static_cast<off_t>(offset));
  } while (done < 0 && errno == EINTR);
  return done == static_cast<ssize_t>(bytes);
}

uint64_t TelemetryFile::offset_of(uint32_t slot) const {
  return nccl_abi::kTelemetrySlotsOffset + uint64_t{slot} * header_.slot_bytes;
}

// The plugin locks a file before it gives it its size, and locks no file again: a shared lock of a
// file of that size delays no writer. At worst its sweep leaves a file to the next one.
bool TelemetryFile::is_locked() const {
  if (::flock(fd_, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(fd_, LOCK_UN);
  return false;
}

bool TelemetryFile::is_used(uint32_t index) const {
  uint32_t is_used = 0;
  return read_at(offset_of(index) + offsetof(CommSlot, is_used), &is_used, sizeof is_used) &&
         is_used != 0;
}

std::optional<CommView> TelemetryFile::read_slot(uint32_t index) const {
  constexpr int kTriesMax = 10;
  constexpr size_t kViewOffset = offsetof(CommSlot, view);
  const size_t view_bytes = std::min<size_t>(header_.slot_bytes - kViewOffset, sizeof(CommView));
  for (int i = 0; i < kTriesMax; ++i) {
    // The same order as nccl_abi::read_slot(): sequence, view, sequence. Each is a system call,
    // and so ordered with the others.
    uint32_t before[2];  // sequence, is_used
    uint32_t after = 0;
    CommView view{};
    if (!read_at(offset_of(index), before, sizeof before) || before[1] == 0) return std::nullopt;
    if (!read_at(offset_of(index) + kViewOffset, &view, view_bytes)) return std::nullopt;
    if (!read_at(offset_of(index), &after, sizeof after)) return std::nullopt;
    if (before[0] % 2 == 0 && before[0] == after) return view;
  }
  return std::nullopt;
}

}  // namespace lyre::tools
