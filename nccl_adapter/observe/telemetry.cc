#include "nccl_adapter/observe/telemetry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <string_view>

#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/bytes.h"

namespace lyre::nccl_adapter {

using nccl_abi::CommSlot;
using nccl_abi::TelemetryHeader;

namespace {

std::string own_prefix() { return nccl_abi::telemetry_prefix(::getuid()); }

// The process has one for each communicator. Containers that share the directory have process ids
// of their own, and may have the same ones: what tells the files apart is the number.
std::string file_name(const std::string& directory, uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, number);
  return directory + "/" + own_prefix() + std::to_string(::getpid()) + "-" + digits;
}

// The writer of a file holds its lock: a file that can be locked was left by a process that ended.
void sweep(const std::string& directory) {
  const std::string prefix = own_prefix();
  DIR* const entries = ::opendir(directory.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    const int fd =
        ::openat(::dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlinkat(::dirfd(entries), entry->d_name, 0);
    ::close(fd);
  }
  ::closedir(entries);
}

// A file that is there is another process's, alive or not: sweep() removes it when it may.
client::UnforkedFd open_locked(const std::string& directory, uint64_t number, std::string* path) {
  constexpr uint64_t kTriesMax = 10;
  for (uint64_t i = 0; i < kTriesMax; ++i) {
    *path = file_name(directory, number + i);
    // A child that lives longer than this process would keep the lock. One that was forked beside
    // the first open has that file, which another one replaces.
    bool is_made = false;
    client::UnforkedFd fd = client::UnforkedFd::of([path, &is_made] {
      if (is_made) ::unlink(path->c_str());
      const int made =
          ::open(path->c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
      is_made = made >= 0;
      return made;
    });
    if (!fd.is_open() && errno == EEXIST) continue;
    if (!fd.is_open()) return fd;
    // Another process may have swept it before it was locked.
    struct stat status {};
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(fd.get(), &status) == 0 &&
        status.st_nlink > 0) {
      return fd;
    }
  }
  return {};
}

// A file beyond this limit is not refused: the process gets SIGXFSZ.
bool may_have_the_size() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= nccl_abi::kTelemetryBytes) {
    return true;
  }
  errno = EFBIG;
  return false;
}

// Not posix_fallocate(): where a file system knows no allocation, that one writes instead.
bool allocate(int fd, size_t offset, size_t bytes) {
  int rc = 0;
  do {
    rc = ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  return rc == 0;
}

uint8_t* map(int fd) {
  void* memory =
      ::mmap(nullptr, nccl_abi::kTelemetryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  // In a child of fork() it would keep the file open, and so the lock.
  static_cast<void>(::madvise(memory, nccl_abi::kTelemetryBytes, MADV_DONTFORK));
  return static_cast<uint8_t*>(memory);
}

}  // namespace

Telemetry::Telemetry(const std::string& directory, const std::string& host,
                     const std::string& socket, uint64_t number) {
  if (directory == nccl_abi::kNoTelemetry) return;
  sweep(directory);
  if (const int code = open_file(directory, number); code != 0) {
    log_info("`lyre comms` will not show this process: cannot write %s: %s", path_.c_str(),
             ::strerror(code));
    return;
  }
  auto* header = new (memory_) TelemetryHeader{};
  header->version = nccl_abi::kTelemetryVersion;
  header->version_min_reader = nccl_abi::kTelemetryVersionMinReader;
  header->slots = nccl_abi::kTelemetrySlots;
  header->slot_bytes = sizeof(CommSlot);
  header->pid = static_cast<uint32_t>(::getpid());
  copy_text(header->host, host);
  copy_text(header->program, program_invocation_short_name);
  copy_text(header->socket, socket);
  header->magic = nccl_abi::kTelemetryMagic;
}

int Telemetry::open_file(const std::string& directory, uint64_t number) {
  path_ = file_name(directory, number);
  if (!may_have_the_size()) return errno;
  fd_ = open_locked(directory, number, &path_);
  if (!fd_.is_open()) return errno;
  if (::ftruncate(fd_.get(), nccl_abi::kTelemetryBytes) == 0 &&
      allocate(fd_.get(), 0, nccl_abi::kTelemetrySlotsOffset)) {
    memory_ = map(fd_.get());
  }
  if (memory_ != nullptr) return 0;
  const int code = errno;
  ::unlink(path_.c_str());
  fd_ = {};
  return code;
}

Telemetry::~Telemetry() {
  if (!fd_.is_open()) return;
  if (memory_ != nullptr) ::munmap(memory_, nccl_abi::kTelemetryBytes);
  ::unlink(path_.c_str());
}

CommSlot* Telemetry::take() {
  if (memory_ == nullptr) return nullptr;
  uint32_t index = used_;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (has_room_for(used_ + 1)) {
    ++used_;
  } else {
    not_shown().fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  auto* slots = reinterpret_cast<CommSlot*>(memory_ + nccl_abi::kTelemetrySlotsOffset);
  return &slots[index];
}

bool Telemetry::has_room_for(uint32_t slots) {
  constexpr uint32_t kSlotsAtATime = 64;
  if (slots <= allocated_) return true;
  if (is_full_) return false;
  if (slots > nccl_abi::kTelemetrySlots) {
    is_full_ = true;
    log_info(
        "`lyre comms` will show only %u connections of this process: its file has no more room",
        allocated_);
    return false;
  }
  const uint32_t more = std::min(kSlotsAtATime, nccl_abi::kTelemetrySlots - allocated_);
  const size_t offset = nccl_abi::kTelemetrySlotsOffset + allocated_ * sizeof(CommSlot);
  if (!allocate(fd_.get(), offset, more * sizeof(CommSlot))) {
    is_full_ = true;
    log_info("`lyre comms` will show only %u connections of this process: %s: %s", allocated_,
             path_.c_str(), ::strerror(errno));
    return false;
  }
  allocated_ += more;
  return true;
}

std::atomic<uint32_t>& Telemetry::not_shown() {
  return reinterpret_cast<TelemetryHeader*>(memory_)->comms_not_shown;
}

void Telemetry::give_back(CommSlot* slot) {
  if (memory_ == nullptr) return;
  if (slot == nullptr) {
    not_shown().fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  slot->is_used.store(0, std::memory_order_relaxed);
  auto* slots = reinterpret_cast<CommSlot*>(memory_ + nccl_abi::kTelemetrySlotsOffset);
  free_.push_back(static_cast<uint32_t>(slot - slots));
}

void Telemetry::count_foreign(const std::string& address) {
  if (memory_ == nullptr) return;
  auto* header = reinterpret_cast<TelemetryHeader*>(memory_);
  copy_text(header->last_foreign, address);
  header->foreign.fetch_add(1, std::memory_order_relaxed);
}

void Telemetry::show_verbs(const std::string& summary) {
  if (memory_ == nullptr) return;
  copy_text(reinterpret_cast<TelemetryHeader*>(memory_)->verbs, summary);
}

void Telemetry::touch(int64_t now_ns) {
  if (memory_ == nullptr) return;
  reinterpret_cast<TelemetryHeader*>(memory_)->written_ns.store(now_ns, std::memory_order_relaxed);
}

}  // namespace lyre::nccl_adapter
