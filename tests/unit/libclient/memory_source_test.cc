#include "libclient/memory_source.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lyre::client {
namespace {

/// Finds a few bytes in the second of two hugepages. Without a mapping: `is_possible` is false.
/// Nobody touches the pages, so that none has to be reserved.
struct FoundInHugepages {
  explicit FoundInHugepages(size_t name_characters) {
    const std::string name(name_characters, 'h');
    const UniqueFd file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_HUGETLB));
    struct statfs facts {};
    if (!file.is_open() || ::fstatfs(file.get(), &facts) != 0) return;
    page_bytes = static_cast<uint64_t>(facts.f_bsize);
    const size_t bytes = 2 * page_bytes;
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return;
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
    if (memory == MAP_FAILED) return;
    is_possible = true;
    second_page = reinterpret_cast<uint64_t>(memory) + page_bytes;
    source = find_source(static_cast<const uint8_t*>(memory) + page_bytes + 100, 1000);
    ::munmap(memory, bytes);
  }

  bool is_possible = false;
  uint64_t page_bytes = 0;
  uint64_t second_page = 0;
  MemorySource source;
};

// A daemon refuses parts of hugepages. Of a file with a long name the kernel tells less.
TEST(MemorySource, OfAFileOfHugepagesHasWholeOnes) {
  for (const size_t name_characters : {size_t{4}, size_t{200}}) {
    SCOPED_TRACE(name_characters);
    const FoundInHugepages found(name_characters);
    if (!found.is_possible) GTEST_SKIP() << "this system has no hugepages";
    EXPECT_EQ(MemorySource::Kind::kFile, found.source.kind) << found.source.why;
    EXPECT_EQ(found.second_page, found.source.page_begin);
    EXPECT_EQ(found.second_page + found.page_bytes, found.source.page_end);
    EXPECT_EQ(found.page_bytes, found.source.offset);
  }
}

TEST(MemorySource, SaysSoWhenNoDescriptorIsLeft) {
  const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const UniqueFd file(::memfd_create("lyre-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(0, ::ftruncate(file.get(), static_cast<off_t>(page_bytes)));
  void* memory = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(MAP_FAILED, memory);
  rlimit before{};
  ASSERT_EQ(0, ::getrlimit(RLIMIT_NOFILE, &before));
  // It opens /proc/self/maps, a directory, and the duplicate: three numbers, one more each time.
  std::vector<MemorySource> found;
  const UniqueFd lowest_free(::dup(file.get()));
  rlimit limit{static_cast<rlim_t>(lowest_free.get()) + 1, before.rlim_max};
  do {
    ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &limit));
    found.push_back(find_source(memory, 100));
  } while (found.back().kind != MemorySource::Kind::kFile && ++limit.rlim_cur < before.rlim_cur);
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &before));
  ::munmap(memory, page_bytes);
  ASSERT_EQ(MemorySource::Kind::kFile, found.back().kind) << found.back().why;
  found.pop_back();
  EXPECT_GE(found.size(), 3u);
  for (const MemorySource& source : found) {
    EXPECT_STREQ("no descriptor is left to look at its mapping (RLIMIT_NOFILE)", source.why);
    EXPECT_TRUE(source.may_pass);
  }
}

}  // namespace
}  // namespace lyre::client
