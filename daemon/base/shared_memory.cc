#include "daemon/base/shared_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/base/errno_error.h"
#include "stack/base/huge_map.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace lyre {
namespace {

Error memory_error(const char* what, const char* name) {
  return errno_error(std::string(what) + " of '" + name + "' failed");
}

OwnedFd make_memfd(const char* name) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Newer kernels can require MFD_NOEXEC_SEAL, older ones do not have it.
  const int fd = ::memfd_create(name, flags | MFD_NOEXEC_SEAL);
  return OwnedFd(fd >= 0 ? fd : ::memfd_create(name, flags));
}

Result<OwnedFd> open_again(int fd, int access) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  OwnedFd out(::open(path.c_str(), access | O_CLOEXEC));
  if (!out.is_open()) return memory_error("second open", path.c_str());
  return out;
}

/// Who opens a file that has a lease sends its owner a signal. By default that is SIGIO, which ends
/// a process; SIGURG is ignored.
bool set_lease(int fd, int type) {
  return ::fcntl(fd, F_SETSIG, SIGURG) == 0 && ::fcntl(fd, F_SETLEASE, type) == 0;
}

/// The kernel looks for other opens of a file before it looks at fs.leases-enable, so this asks
/// with a file of which there is one.
bool grants_leases() {
  const OwnedFd file = make_memfd("lyre-lease");
  if (!file.is_open()) return false;
  auto counted = open_again(file.get(), O_RDWR);
  return counted.ok() && set_lease(counted->get(), F_WRLCK);
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const char* name, uint64_t bytes, SharedWith with) {
  SharedMemory memory;
  memory.fd_ = make_memfd(name);
  if (!memory.fd_.is_open()) return memory_error("memfd_create", name);
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(memory.fd(), size) != 0) return memory_error("ftruncate", name);
  if (with == SharedWith::kWriters) {
    // The kernel does not count the open of memfd_create(), and take_back() needs the count.
    auto counted = reopen(memory.fd());
    if (!counted.ok()) return counted.error();
    memory.fd_ = std::move(*counted);
  }
  // Allocate now: a page that the system refuses later (vm.overcommit_memory = 2) would be SIGBUS
  // and end the daemon.
  if (with == SharedWith::kReaders && ::fallocate(memory.fd(), 0, 0, size) != 0) {
    return memory_error("allocation", name);
  }
  void* data = map_huge_aligned(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd());
  if (data == MAP_FAILED) return memory_error("mmap", name);
  memory.data_ = static_cast<uint8_t*>(data);
  memory.bytes_ = bytes;
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  // A read-only descriptor can be opened again for writing through /proc; the seal stops that. It
  // does not affect the existing mapping.
  if (with == SharedWith::kReaders) seals |= F_SEAL_FUTURE_WRITE;
  if (with == SharedWith::kWriters) ::madvise(data, bytes, MADV_DONTDUMP);
  if (::fcntl(memory.fd(), F_ADD_SEALS, seals) != 0) return memory_error("sealing", name);
  return memory;
}

Result<SharedMemory> SharedMemory::adopt(OwnedFd fd, uint64_t bytes) {
  struct stat file {};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  const bool is_sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  if (!is_sealed || ::fstat(fd.get(), &file) != 0 || static_cast<uint64_t>(file.st_size) != bytes) {
    return Error{EINVAL, "not a shared memory of " + std::to_string(bytes) + " bytes"};
  }
  void* data = map_huge_aligned(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get());
  if (data == MAP_FAILED) return errno_error("mmap of a shared memory");
  ::madvise(data, bytes, MADV_DONTDUMP);  // as create() does with SharedWith::kWriters
  SharedMemory memory;
  memory.fd_ = std::move(fd);
  memory.data_ = static_cast<uint8_t*>(data);
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  fd_ = std::move(other.fd_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

SharedMemory::~SharedMemory() { unmap(); }

OwnedFd SharedMemory::release() {
  unmap();
  return std::move(fd_);
}

void SharedMemory::unmap() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
}

Status SharedMemory::allocate(uint64_t offset, uint64_t bytes) const {
  const int done = ::fallocate(fd(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  return done == 0 ? Status(Ok{}) : Status(errno_error("no pages for a shared memory"));
}

bool accounts_strictly() {
  const OwnedFd file(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
  char mode = '0';
  return file.is_open() && ::read(file.get(), &mode, 1) == 1 && mode == '2';
}

Result<OwnedFd> reopen_read_only(int fd) { return open_again(fd, O_RDONLY); }

Result<OwnedFd> reopen(int fd) { return open_again(fd, O_RDWR); }

/// A read lease is refused while the file is open for writing, as it is through `fd` itself if the
/// kernel counts that open.
bool can_be_taken_back(int fd) {
  if (set_lease(fd, F_RDLCK)) {
    ::fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
  }
  return errno == EAGAIN && grants_leases();
}

/// A write lease is granted to the only one who has the file open. A mapping keeps it open.
bool take_back(int fd) { return set_lease(fd, F_WRLCK); }

void free_pages(int fd) {
  if (!take_back(fd))
    return;  // somebody opened it meanwhile, or the system grants no lease any more
  struct stat file {};
  if (::fstat(fd, &file) != 0) return;
  static_cast<void>(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, file.st_size));
}

}  // namespace lyre
