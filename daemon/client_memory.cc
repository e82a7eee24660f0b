#include "daemon/client_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "daemon/errno_error.h"

namespace lyre {
namespace {

/// A pool of pages that only this kernel stands behind. Files of other kinds, which may answer when
/// they like, are told apart without asking them anything.
bool is_of_memory(int file) { return ::fcntl(file, F_GET_SEALS) >= 0; }

Status check_extent(const ClientMemory& memory) {
  struct stat facts {};
  if (::fstat(memory.file.get(), &facts) != 0) return errno_error("cannot look at the memory");
  const auto file_bytes = static_cast<uint64_t>(facts.st_size);
  if (memory.bytes == 0 || memory.bytes % memory.page_bytes != 0 ||
      memory.offset % memory.page_bytes != 0) {
    return Error{EINVAL, "not whole pages of " + std::to_string(memory.page_bytes) + " bytes"};
  }
  if (memory.offset > file_bytes || memory.bytes > file_bytes - memory.offset) {
    return Error{EINVAL, "the memory is shorter than that"};
  }
  return Ok{};
}

Result<uint64_t> page_bytes_of(int file, uint64_t system_page) {
  struct statfs facts {};
  if (::fstatfs(file, &facts) != 0) return errno_error("cannot look at the memory");
  if (facts.f_type == TMPFS_MAGIC) return system_page;
  if (facts.f_type == HUGETLBFS_MAGIC) return static_cast<uint64_t>(facts.f_bsize);
  return Error{EINVAL, "neither tmpfs nor hugetlbfs"};
}

std::string own_link(int file) { return "/proc/self/fd/" + std::to_string(file); }

/// The device of the kernel's own mount for unnamed memory of this kind; 0 when there is none.
dev_t unnamed_device(unsigned memfd_flags) {
  const OwnedFd probe(::memfd_create("lyre-probe", MFD_CLOEXEC | memfd_flags));
  struct stat facts {};
  return probe.is_open() && ::fstat(probe.get(), &facts) == 0 ? facts.st_dev : 0;
}

/// True for the object behind shared anonymous memory. A name counts only on the kernel's own
/// mount, where no process can create one. `file` may be an O_PATH descriptor. The name comes
/// first: fstat() of a user's file system may wait for that user.
bool is_shared_anonymous(int file) {
  char name[64] = "";
  const ssize_t length = ::readlink(own_link(file).c_str(), name, sizeof name - 1);
  if (length < 0) return false;
  const std::string_view text(name, static_cast<size_t>(length));
  const bool is_huge = text == "/anon_hugepage (deleted)";
  if (!is_huge && text != "/dev/zero (deleted)") return false;
  struct stat facts {};
  return ::fstat(file, &facts) == 0 && facts.st_dev == unnamed_device(is_huge ? MFD_HUGETLB : 0);
}

/// Opens the object of a mapping if it is shared anonymous memory. O_PATH finds the object without
/// opening it: the open of a device, or of a user's file system, has effects. The check and the
/// open are of one object, so a client that changes the mapping meanwhile gains nothing.
Result<OwnedFd> open_shared_anonymous(int directory, const char* entry) {
  const OwnedFd object(::openat(directory, entry, O_PATH | O_CLOEXEC));
  if (!object.is_open()) return errno_error("the mapping cannot be looked at");
  if (!is_shared_anonymous(object.get())) return Error{EINVAL, "not shared anonymous memory"};
  OwnedFd file(::open(own_link(object.get()).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return errno_error("the mapping cannot be opened");
  return file;
}

bool is_alive(int process) {
  pollfd entry{.fd = process, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 0;  // a pidfd becomes readable when its process ends
}

/// The process is the one that connected, and nobody more powerful has taken its place by exec.
Status check_owner(int directory, const ClientIdentity& client, int process) {
  struct stat facts {};
  if (::fstat(directory, &facts) != 0 || !is_alive(process)) {
    return Error{ESRCH, "the process is gone"};
  }
  if (facts.st_uid != client.uid) return Error{EPERM, "the process is another user's by now"};
  return Ok{};
}

}  // namespace

Result<ClientMemory> memory_of_descriptor(OwnedFd file, uint64_t offset, uint64_t bytes,
                                          uint64_t system_page) {
  if (!is_of_memory(file.get())) {
    close_elsewhere(std::move(file));
    return Error{EINVAL, "neither a memfd nor a file of tmpfs or hugetlbfs"};
  }
  const auto page_bytes = page_bytes_of(file.get(), system_page);
  if (!page_bytes.ok()) return page_bytes.error();
  ClientMemory memory{std::move(file), offset, bytes, page_bytes.value()};
  // Where it is not allowed, vanishing pages are caught when they are missed.
  static_cast<void>(::fcntl(memory.file.get(), F_ADD_SEALS, F_SEAL_SHRINK));
  // After the seal: what is there now stays.
  if (Status extent = check_extent(memory); !extent.ok()) return extent.error();
  return memory;
}

Result<ClientMemory> memory_of_mapping(const ClientIdentity& client, int process,
                                       const ForeignMapping& mapping, uint64_t offset,
                                       uint64_t bytes) {
  if (client.pid <= 0 || process < 0) {
    return Error{EPERM, "the process cannot be seen from the daemon's namespace"};
  }
  const std::string path = "/proc/" + std::to_string(client.pid);
  const OwnedFd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return Error{ESRCH, "the process is gone"};
  char entry[64];
  std::snprintf(entry, sizeof entry, "map_files/%llx-%llx",
                static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  auto file = open_shared_anonymous(directory.get(), entry);
  if (!file.ok()) return file.error();
  if (Status owner = check_owner(directory.get(), client, process); !owner.ok()) {
    return owner.error();
  }
  const auto page_bytes = page_bytes_of(file->get(), system_page_bytes());
  if (!page_bytes.ok()) return page_bytes.error();
  ClientMemory memory{std::move(*file), offset, bytes, page_bytes.value()};
  if (Status extent = check_extent(memory); !extent.ok()) return extent.error();
  return memory;
}

void close_elsewhere(OwnedFd file) {
  if (!file.is_open() || is_of_memory(file.get())) return;  // whose end waits for nobody
  const int fd = file.release();
  try {
    std::thread([fd] { ::close(fd); }).detach();
  } catch (const std::system_error&) {
    // One descriptor stays open: better than a daemon that waits for a stranger.
  }
}

}  // namespace lyre
