#include "daemon/memory/region_window.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/base/owned_fd.h"
#include "tests/unit/core_dump.h"

namespace lyre {
namespace {

const uint64_t kWindowPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));

OwnedFd memory_of(uint64_t bytes, uint8_t fill) {
  OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  const std::vector<uint8_t> content(bytes, fill);
  EXPECT_EQ(::pwrite(file.get(), content.data(), bytes, 0), static_cast<ssize_t>(bytes));
  return file;
}

struct RegionWindowTest : testing::Test {
  void SetUp() override {
    auto made = RegionWindow::reserve();
    ASSERT_TRUE(made.ok()) << made.error().text;
    window = std::move(*made);
  }
  uint8_t* map(const OwnedFd& file, uint64_t bytes, uint64_t offset = 0) {
    auto mapped = window->map(file.get(), offset, bytes, kWindowPage);
    EXPECT_TRUE(mapped.ok());
    return mapped.ok() ? mapped.value() : nullptr;
  }
  std::unique_ptr<RegionWindow> window;
};

TEST_F(RegionWindowTest, NeighboursLieSideBySideAndAddressesAreUsedAgain) {
  const OwnedFd file = memory_of(4 * kWindowPage, 1);
  uint8_t* first = map(file, 3 * kWindowPage);
  uint8_t* second = map(file, kWindowPage, 3 * kWindowPage);
  uint8_t* third = map(file, 2 * kWindowPage);
  EXPECT_EQ(second, first + 3 * kWindowPage);
  EXPECT_EQ(third, second + kWindowPage);
  window->unmap(second);
  window->unmap(first);
  EXPECT_EQ(map(file, 4 * kWindowPage), first);  // both holes became one
  EXPECT_EQ(third[2 * kWindowPage - 1], 1);
  EXPECT_EQ(window->mapped_count(), 2u);
}

/// A driver that is told of the window as a whole takes whole pages of it.
TEST_F(RegionWindowTest, TellsWholePagesThatHaveAllOfIt) {
  const auto all = window->addresses();
  EXPECT_GT(all.size(), 0u);
  EXPECT_EQ(all.size() % RegionWindow::kAlignment, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(all.data()) % RegionWindow::kAlignment, 0u);
  const OwnedFd file = memory_of(kWindowPage, 1);
  const uint8_t* base = map(file, kWindowPage);
  EXPECT_GE(base, all.data());
  EXPECT_LE(base + kWindowPage, all.data() + all.size());
  auto rest = window->map(file.get(), 0, all.size(), kWindowPage);
  EXPECT_FALSE(rest.ok()) << "it has a page less";
}

/// As a system with pages of 64 KiB: what is no whole page there is an error, not the daemon's end.
TEST(RegionWindowPages, AreThoseOfTheSystem) {
  constexpr uint64_t kLarge = 65536;
  auto window = RegionWindow::reserve(kLarge);
  ASSERT_TRUE(window.ok()) << window.error().text;
  const OwnedFd file = memory_of(2 * kLarge, 1);
  const auto expect_refused = [&](uint64_t offset, uint64_t bytes, uint64_t page_bytes) {
    const auto mapped = (*window)->map(file.get(), offset, bytes, page_bytes);
    ASSERT_FALSE(mapped.ok()) << offset << " " << bytes << " " << page_bytes;
    EXPECT_EQ(mapped.error().code, EINVAL);
  };
  expect_refused(0, 12288, 4096);
  expect_refused(0, kLarge + 4096, kLarge);
  expect_refused(4096, kLarge, kLarge);
  expect_refused(0, 0, kLarge);
  for (int i = 0; i < 2; ++i) {
    const auto mapped = (*window)->map(file.get(), kLarge, kLarge, kLarge);
    ASSERT_TRUE(mapped.ok()) << mapped.error().text;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped.value()) % kLarge, 0u);
  }
}

TEST_F(RegionWindowTest, ReadsWhatTheOwnerWrites) {
  const OwnedFd file = memory_of(kWindowPage, 1);
  const uint8_t* base = map(file, kWindowPage);
  const uint8_t byte = 9;
  ASSERT_EQ(::pwrite(file.get(), &byte, 1, 100), 1);
  EXPECT_EQ(base[100], 9);
}

// The window was left out of a core, and the mappings that took its place were not: a crash wrote
// the memory of all clients to the disk.
TEST_F(RegionWindowTest, ACoreHasNeitherClientsMemoryNorItsAddresses) {
  if (!tells_what_a_core_has()) GTEST_SKIP() << "needs VmFlags of /proc/self/smaps";
  const OwnedFd file = memory_of(2 * kWindowPage, 1);
  uint8_t* base = map(file, 2 * kWindowPage);
  EXPECT_TRUE(is_left_out_of_core(base));
  EXPECT_TRUE(is_left_out_of_core(base + kWindowPage));
  window->unmap(base);
  EXPECT_TRUE(is_left_out_of_core(base));
}

TEST_F(RegionWindowTest, AReadOnlyDescriptorWillDo) {
  const OwnedFd file = memory_of(kWindowPage, 3);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const OwnedFd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(map(reader, kWindowPage)[7], 3);
}

TEST_F(RegionWindowTest, PagesThatVanishBecomeZerosAndAreReportedOnce) {
  const OwnedFd file = memory_of(8 * kWindowPage, 5);
  const OwnedFd other = memory_of(kWindowPage, 6);
  const volatile uint8_t* robbed = map(file, 8 * kWindowPage);
  const volatile uint8_t* neighbour = map(other, kWindowPage);
  EXPECT_EQ(window->take_faulted(), nullptr);
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kWindowPage)), 0);
  EXPECT_EQ(robbed[5 * kWindowPage], 0);  // without the window's handler the process ends here
  EXPECT_EQ(robbed[7 * kWindowPage], 0);
  EXPECT_EQ(neighbour[0], 6);
  EXPECT_EQ(window->take_faulted(), robbed);
  EXPECT_EQ(window->take_faulted(), nullptr);
  window->unmap(const_cast<uint8_t*>(robbed));
}

// The handler asked for pages that could be written. Where the system has no page for a hole, it
// has none of these either: the process ended.
TEST_F(RegionWindowTest, TheZerosNeedNoMemoryOfTheSystem) {
  const OwnedFd file = memory_of(4096 * kWindowPage, 5);
  const volatile uint8_t* robbed = map(file, 4096 * kWindowPage);
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit none{.rlim_cur = kWindowPage, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &none), 0);
  const uint8_t byte = robbed[kWindowPage];
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_EQ(byte, 0);
  EXPECT_EQ(window->take_faulted(), robbed);
}

/// Of the system; -1: it does not tell.
int hugepages() {
  std::ifstream file("/proc/sys/vm/nr_hugepages");
  int count = -1;
  file >> count;
  return count;
}

TEST_F(RegionWindowTest, AHoleForWhichThereIsNoHugepageReadsAsZeros) {
  const OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC | MFD_HUGETLB));
  struct statfs facts {};
  if (::fstatfs(file.get(), &facts) != 0 || hugepages() != 0) {
    GTEST_SKIP() << "needs hugetlbfs, and no hugepages";
  }
  const auto bytes = static_cast<uint64_t>(facts.f_bsize);
  ASSERT_EQ(::ftruncate(file.get(), facts.f_bsize), 0);
  const auto mapped = window->map(file.get(), 0, bytes, bytes);
  ASSERT_TRUE(mapped.ok()) << mapped.error().text;
  EXPECT_EQ(static_cast<const volatile uint8_t*>(mapped.value())[4711], 0);
  EXPECT_EQ(window->take_faulted(), mapped.value());
}

TEST_F(RegionWindowTest, GuardedMemoryBecomesZerosUntilItIsGuardedNoLonger) {
  const OwnedFd file = memory_of(4 * kWindowPage, 5);
  void* base = ::mmap(nullptr, 4 * kWindowPage, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  const auto* guarded = static_cast<const uint8_t*>(base);
  const volatile uint8_t* read = guarded + 2 * kWindowPage;
  ASSERT_TRUE(window->guard(guarded, 4 * kWindowPage).ok());
  EXPECT_EQ(*read, 5);
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  EXPECT_EQ(*read, 0);
  EXPECT_EQ(window->take_faulted(), guarded);
  window->unguard(guarded);
  ASSERT_EQ(::mmap(base, kWindowPage, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0), base);
  EXPECT_DEATH(std::fprintf(stderr, "%d", *static_cast<volatile uint8_t*>(base)), "");
  ::munmap(base, 4 * kWindowPage);
}

TEST_F(RegionWindowTest, AFaultElsewhereStillEndsTheProcess) {
  const OwnedFd file = memory_of(kWindowPage, 5);
  void* base = ::mmap(nullptr, kWindowPage, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  EXPECT_DEATH(std::fprintf(stderr, "%d", *static_cast<volatile uint8_t*>(base)), "");
  ::munmap(base, kWindowPage);
}

/// As DPDK's handler does for the registers of a device that was removed.
void* g_device_registers = nullptr;
int g_device_faults = 0;

void map_registers_anew(int, siginfo_t* info, void*) {
  if (info->si_addr != g_device_registers) std::abort();
  ++g_device_faults;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  ::mmap(g_device_registers, kWindowPage, PROT_READ | PROT_WRITE, kFlags, -1, 0);
}

TEST(RegionWindowBesideAnotherHandler, EachGetsItsOwnFaults) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = map_registers_anew;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGBUS, &action, &before), 0);
  const OwnedFd device = memory_of(kWindowPage, 7);
  g_device_registers =
      ::mmap(nullptr, kWindowPage, PROT_READ | PROT_WRITE, MAP_SHARED, device.get(), 0);
  ASSERT_NE(g_device_registers, MAP_FAILED);
  {
    auto window = RegionWindow::reserve();
    ASSERT_TRUE(window.ok()) << window.error().text;
    const OwnedFd file = memory_of(kWindowPage, 5);
    const auto mapped = (*window)->map(file.get(), 0, kWindowPage, kWindowPage);
    ASSERT_TRUE(mapped.ok());
    ASSERT_EQ(::ftruncate(device.get(), 0), 0);
    ASSERT_EQ(::ftruncate(file.get(), 0), 0);
    EXPECT_EQ(*static_cast<volatile uint8_t*>(g_device_registers), 0);
    EXPECT_EQ(*static_cast<volatile uint8_t*>(mapped.value()), 0);
    EXPECT_EQ(g_device_faults, 1);
    EXPECT_EQ((*window)->take_faulted(), mapped.value());
  }
  struct sigaction after {};
  ASSERT_EQ(::sigaction(SIGBUS, &before, &after), 0);
  EXPECT_EQ(after.sa_sigaction, map_registers_anew) << "the handler is there again";
  ::munmap(g_device_registers, kWindowPage);
}

TEST_F(RegionWindowTest, WhatCannotBeMappedLeavesNoHole) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const OwnedFd reader(ends[0]), writer(ends[1]);
  EXPECT_FALSE(window->map(reader.get(), 0, kWindowPage, kWindowPage).ok());
  const OwnedFd file = memory_of(kWindowPage, 1);
  uint8_t* first = map(file, kWindowPage);
  EXPECT_EQ(map(file, kWindowPage), first + kWindowPage);
  EXPECT_EQ(window->mapped_count(), 2u);
}

}  // namespace
}  // namespace lyre
