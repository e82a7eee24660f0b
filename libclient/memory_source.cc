#include "libclient/memory_source.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "stack/base/huge_map.h"
#include "stack/base/page_size.h"

namespace lyre::client {
namespace {

/// One line of /proc/self/maps.
struct ProcessMapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  uint64_t inode = 0;
  dev_t device = 0;
  uint64_t page_bytes = 0;
  bool is_shared = false;
  char name[64] = "";
};

/// The kernel's struct procmap_query, for systems with older headers.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t kProcmapShared = 8;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Finds one mapping by PROCMAP_QUERY (Linux 6.11).
bool query_mapping(int maps, uint64_t address, ProcessMapping& out, bool& is_answered) {
  ProcmapQuery query{};
  query.size = sizeof query;
  query.query_addr = address;
  query.vma_name_addr = reinterpret_cast<uint64_t>(out.name);
  query.vma_name_size = sizeof out.name;
  const bool is_found = ::ioctl(maps, kProcmapQuery, &query) == 0;
  // Not of ENAMETOOLONG: the kernel tells nothing of a mapping whose name does not fit.
  is_answered = is_found || errno == ENOENT;
  if (!is_found) return false;
  out.begin = query.vma_start;
  out.end = query.vma_end;
  out.offset = query.vma_offset;
  out.inode = query.inode;
  out.device = makedev(query.dev_major, query.dev_minor);
  out.page_bytes = query.vma_page_size;
  out.is_shared = (query.vma_flags & kProcmapShared) != 0;
  return true;
}

/// The same from /proc/self/maps, for older kernels and long names. It does not tell the pages of a
/// file: see file_page_bytes().
bool scan_mappings(std::FILE* maps, uint64_t address, ProcessMapping& out) {
  std::rewind(maps);
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long begin = 0, end = 0, offset = 0, inode = 0;
    unsigned major_number = 0, minor_number = 0;
    char rights[8] = "";
    int name_at = 0;
    if (std::sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &begin, &end, rights, &offset,
                    &major_number, &minor_number, &inode, &name_at) < 7) {
      continue;
    }
    if (address < begin || address >= end) continue;
    out.begin = begin;
    out.end = end;
    out.offset = offset;
    out.inode = inode;
    out.device = makedev(major_number, minor_number);
    out.is_shared = rights[3] == 's';
    line[std::strcspn(line, "\n")] = '\0';
    std::snprintf(out.name, sizeof out.name, "%s", line + name_at);
    const bool is_huge = std::strcmp(out.name, "/anon_hugepage (deleted)") == 0;
    out.page_bytes = is_huge ? kHugePageBytes : system_page_bytes();
    return true;
  }
  return false;
}

bool find_mapping(std::FILE* maps, uint64_t address, ProcessMapping& out) {
  bool is_answered = false;
  if (query_mapping(::fileno(maps), address, out, is_answered)) return true;
  return !is_answered && scan_mappings(maps, address, out);
}

/// Whether `fd` is of the mapped file. Asks files of memory only, which alone have seals: fstat()
/// of a file on a network may wait for its server.
bool is_same_file(int fd, const ProcessMapping& mapping) {
  struct stat facts {};
  return ::fcntl(fd, F_GET_SEALS) >= 0 && ::fstat(fd, &facts) == 0 &&
         facts.st_ino == mapping.inode && facts.st_dev == mapping.device;
}

/// A duplicate of this process's descriptor of the mapped file. Where there is none, errno says
/// why: 0 if none is open.
UniqueFd find_descriptor(const ProcessMapping& mapping) {
  struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir("/proc/self/fd"));
  if (directory == nullptr) return UniqueFd();
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) return UniqueFd();
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    if (!is_same_file(fd, mapping)) continue;
    // Another thread may have closed the number and opened another file: check the duplicate.
    UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.is_open() && errno != EBADF) return UniqueFd();
    if (copy.is_open() && is_same_file(copy.get(), mapping)) return copy;
  }
}

/// Of the file that is mapped: hugetlbfs has pages of its own size.
uint64_t file_page_bytes(int fd, const ProcessMapping& mapping) {
  struct statfs facts {};
  const bool is_huge = ::fstatfs(fd, &facts) == 0 && facts.f_type == HUGETLBFS_MAGIC;
  return is_huge ? static_cast<uint64_t>(facts.f_bsize) : mapping.page_bytes;
}

/// Shared memory of which nobody has a descriptor.
bool is_anonymous(const ProcessMapping& mapping) {
  return std::strcmp(mapping.name, "/dev/zero (deleted)") == 0 ||
         std::strcmp(mapping.name, "/anon_hugepage (deleted)") == 0;
}

/// Whether the file is mapped contiguously up to `end`.
bool is_contiguous_to(std::FILE* maps, const ProcessMapping& first, uint64_t end) {
  ProcessMapping last = first;
  while (last.end < end) {
    ProcessMapping next;
    if (!find_mapping(maps, last.end, next) || !next.is_shared || next.inode != first.inode ||
        next.device != first.device || next.begin != last.end ||
        next.offset != last.offset + (last.end - last.begin)) {
      return false;
    }
    last = next;
  }
  return true;
}

MemorySource private_memory(const char* why) {
  MemorySource source;
  source.why = why;
  return source;
}

/// After a call that opens a descriptor: errno has its reason, or `otherwise` is the reason.
MemorySource after_failed_open(const char* otherwise) {
  const bool is_full = errno == EMFILE || errno == ENFILE;
  MemorySource source = private_memory(
      is_full ? "no descriptor is left to look at its mapping (RLIMIT_NOFILE)" : otherwise);
  source.may_pass = is_full;
  return source;
}

}  // namespace

MemorySource find_source(const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(data);
  constexpr const char* kNotFound = "its mapping cannot be found";
  const File maps(std::fopen("/proc/self/maps", "re"));
  if (maps == nullptr) return after_failed_open(kNotFound);
  ProcessMapping first;
  if (!find_mapping(maps.get(), begin, first)) return private_memory(kNotFound);
  if (!first.is_shared) return private_memory("it is private memory");
  MemorySource source;
  MemorySource no_file;
  if (!is_anonymous(first)) {
    source.file = find_descriptor(first);
    no_file = after_failed_open("it is of no open file of memory");
  }
  const uint64_t page_bytes =
      source.file.is_open() ? file_page_bytes(source.file.get(), first) : first.page_bytes;
  source.mapping_begin = first.begin;
  source.mapping_end = first.end;
  source.page_begin = begin & ~(page_bytes - 1);
  source.page_end = whole_pages(begin + bytes, page_bytes);
  source.offset = first.offset + (source.page_begin - first.begin);
  if (!is_contiguous_to(maps.get(), first, source.page_end)) {
    return private_memory("it lies in more than one mapping");
  }
  if (is_anonymous(first)) {
    source.kind = MemorySource::Kind::kSharedAnonymous;
    return source;
  }
  if (!source.file.is_open()) return no_file;
  // A file that shrinks under its region costs the context. One that allows no seal has none.
  static_cast<void>(::fcntl(source.file.get(), F_ADD_SEALS, F_SEAL_SHRINK));
  source.kind = MemorySource::Kind::kFile;
  return source;
}

}  // namespace lyre::client
