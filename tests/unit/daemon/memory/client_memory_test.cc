#include "daemon/memory/client_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "daemon/memory/client_mapping.h"

namespace lyre {
namespace {

const uint64_t kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));

OwnedFd memfd(uint64_t bytes, unsigned flags = MFD_ALLOW_SEALING) {
  OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}
OwnedFd copy_of(const OwnedFd& file) { return OwnedFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)); }

Result<ClientMemory> take_copy(const OwnedFd& file, uint64_t offset, uint64_t bytes,
                               uint64_t system_page = kPage) {
  OwnedFd copy = copy_of(file);
  auto memory = memory_of_file(copy, offset, bytes, system_page);
  EXPECT_EQ(copy.is_open(), !memory.ok()) << "only memory that is refused stays the caller's";
  return memory;
}

TEST(DescriptorMemory, IsTakenAsItIs) {
  const OwnedFd file = memfd(4 * kPage);
  const auto memory = take_copy(file, kPage, 2 * kPage);
  ASSERT_TRUE(memory.ok()) << memory.error().text;
  EXPECT_EQ(memory.value().page_bytes, kPage);
  EXPECT_EQ(::fcntl(file.get(), F_GET_SEALS), 0) << "a seal waits for the client's lock";
}

TEST(DescriptorMemory, IsFreedAtOnceIfItIsLittle) {
  OwnedFd file = memfd(uint64_t{1} << 30);
  EXPECT_TRUE(is_freed_at_once(file.get())) << "it has no pages yet";
  ASSERT_EQ(::fallocate(file.get(), 0, 0, (32 << 20) + static_cast<off_t>(kPage)), 0);
  EXPECT_FALSE(is_freed_at_once(file.get()));
}

TEST(DescriptorMemory, LiesInsideItsFileInWholePages) {
  const OwnedFd file = memfd(4 * kPage);
  const std::pair<uint64_t, uint64_t> wrong[] = {{0, 5 * kPage},
                                                 {4 * kPage, kPage},
                                                 {kPage, UINT64_MAX - kPage + 1},
                                                 {UINT64_MAX - kPage + 1, kPage},
                                                 {100, kPage},
                                                 {0, 100},
                                                 {0, 0}};
  for (const auto& [offset, bytes] : wrong) {
    const auto memory = take_copy(file, offset, bytes);
    ASSERT_FALSE(memory.ok()) << offset << " " << bytes;
    EXPECT_EQ(memory.error().code, EINVAL);
  }
}

TEST(DescriptorMemory, ConsistsOfThePagesOfTheSystem) {
  constexpr uint64_t kLarge = 65536;
  const OwnedFd file = memfd(2 * kLarge);
  const auto whole = take_copy(file, kLarge, kLarge, kLarge);
  ASSERT_TRUE(whole.ok()) << whole.error().text;
  EXPECT_EQ(whole.value().page_bytes, kLarge);
  const auto part = take_copy(file, 0, 4096, kLarge);
  ASSERT_FALSE(part.ok());
  EXPECT_EQ(part.error().code, EINVAL);
  EXPECT_EQ(part.error().text, "not whole pages of 65536 bytes");
}

TEST(DescriptorMemory, IsNoFileThatCouldMakeAReaderWait) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const OwnedFd writer(ends[1]);
  const OwnedFd reader(ends[0]);
  EXPECT_FALSE(is_memory_file(reader.get()));
  EXPECT_FALSE(is_memory_file(OwnedFd(::open("/dev/zero", O_RDWR)).get()));
  EXPECT_FALSE(is_memory_file(OwnedFd(::open("/proc/self/exe", O_RDONLY)).get()));
  EXPECT_TRUE(is_memory_file(memfd(kPage).get()));
}

/// The mapping of this process that begins at `address`.
ForeignMapping mapping_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    ForeignMapping mapping;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &mapping.begin, &mapping.end) != 2)
      continue;
    if (mapping.begin == reinterpret_cast<uint64_t>(address)) return mapping;
  }
  return {};
}

struct MappingMemory : testing::Test {
  void SetUp() override {
    shared = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    mapping = mapping_at(shared);
    if (take(mapping).ok()) return;
    const auto refused = take(mapping);
    if (refused.error().code == EPERM || refused.error().code == EACCES) {
      GTEST_SKIP() << "needs CAP_CHECKPOINT_RESTORE: " << refused.error().text;
    }
  }
  void TearDown() override { ::munmap(shared, kBytes); }
  Result<ClientMemory> take(const ForeignMapping& of, uint64_t offset = 0,
                            uint64_t bytes = kBytes) {
    auto object = open_mapping_of(self, process.get(), of);
    if (!object.ok()) return object.error();
    return memory_of_file(*object, offset, bytes);
  }

  static inline const uint64_t kBytes = 16 * kPage;
  ClientIdentity self{.pid = ::getpid(), .uid = ::getuid(), .gid = ::getgid()};
  OwnedFd process{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  void* shared = MAP_FAILED;
  ForeignMapping mapping;
};

TEST_F(MappingMemory, OfSharedAnonymousMemoryIsTheSamePages) {
  const auto memory = take(mapping, kPage, 2 * kPage);
  ASSERT_TRUE(memory.ok()) << memory.error().text;
  std::memset(shared, 7, kBytes);
  uint8_t byte = 0;
  EXPECT_EQ(::pread(memory.value().file.get(), &byte, 1, static_cast<off_t>(kPage)), 1);
  EXPECT_EQ(byte, 7);
}

TEST_F(MappingMemory, IsRefusedOutsideOfIt) {
  EXPECT_FALSE(take(mapping, kBytes, kPage).ok());
  EXPECT_FALSE(take(mapping, 0, kBytes + kPage).ok());
  EXPECT_FALSE(take({mapping.begin, mapping.end + kPage}).ok());  // no such mapping
  EXPECT_FALSE(take({0, 0}).ok());
}

TEST_F(MappingMemory, IsRefusedForAnythingElse) {
  void* anonymous =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const OwnedFd file = memfd(kBytes);
  void* named = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  EXPECT_FALSE(take(mapping_at(anonymous)).ok());
  const auto refused = take(mapping_at(named));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "not shared anonymous memory");
  ::munmap(anonymous, kBytes);
  ::munmap(named, kBytes);
}

// Another mount namespace may have a tmpfs whose files have any name.
TEST_F(MappingMemory, OfAFileWithTheNameOfSuchMemoryIsRefused) {
  const OwnedFd made(::fsopen("tmpfs", FSOPEN_CLOEXEC));
  if (!made.is_open() || ::fsconfig(made.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    GTEST_SKIP() << "needs CAP_SYS_ADMIN, for a tmpfs";
  }
  const OwnedFd root(::fsmount(made.get(), FSMOUNT_CLOEXEC, 0));
  ASSERT_EQ(::mkdirat(root.get(), "dev", 0700), 0);
  const OwnedFd file(::openat(root.get(), "dev/zero", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), kBytes), 0);
  ASSERT_EQ(::unlinkat(root.get(), "dev/zero", 0), 0);
  char name[64] = "";
  ASSERT_GT(::readlink(("/proc/self/fd/" + std::to_string(file.get())).c_str(), name, 63), 0);
  ASSERT_STREQ(name, "/dev/zero (deleted)");
  void* named = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  const auto refused = take(mapping_at(named));
  ::munmap(named, kBytes);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "not shared anonymous memory");
}

// The name was read before the open: a client that changed the mapping in between made the daemon
// open any file or device of its choice.
TEST_F(MappingMemory, NoOtherFileIsOpenedWhileTheMappingChanges) {
  char name[] = "/tmp/lyre-mapping-XXXXXX";
  const OwnedFd file(::mkstemp(name));
  ASSERT_EQ(::ftruncate(file.get(), kBytes), 0);
  const OwnedFd opens(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(opens.get(), name, IN_OPEN), 0);
  std::atomic<bool> is_over{false};
  std::thread changer([&] {
    while (!is_over) {
      ::mmap(shared, kBytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0);
      ::mmap(shared, kBytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
  });
  int taken = 0;
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) ++(take(mapping).ok() ? taken : refused);
  is_over = true;
  changer.join();
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
  inotify_event event;
  EXPECT_EQ(::read(opens.get(), &event, sizeof event), -1) << "the file was opened";
  EXPECT_EQ(errno, EAGAIN);
  ::unlink(name);
}

TEST_F(MappingMemory, OfAProcessThatEndedIsRefused) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const OwnedFd ended(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  int status = 0;
  ::waitpid(child, &status, 0);
  process.reset(::fcntl(ended.get(), F_DUPFD_CLOEXEC, 0));
  const auto memory = take(mapping);  // the pid is of a live process, the pidfd of an ended one
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ESRCH);
}

TEST_F(MappingMemory, OfAProcessThatIsAnotherUsersByNowIsRefused) {
  self.uid += 1;
  const auto memory = take(mapping);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, EPERM);
}

/// A process of another user with the memory of `MappingMemory`.
class OtherUsersProcess {
 public:
  OtherUsersProcess(uint32_t uid, int dumpable) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const OwnedFd reader(ends[0]);
    OwnedFd writer(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool is_ready = ::setresuid(uid, uid, uid) == 0 &&
                            ::prctl(PR_SET_DUMPABLE, dumpable) == 0 &&
                            ::write(writer.get(), "r", 1) == 1;
      if (is_ready) ::pause();
      ::_exit(1);
    }
    writer.reset();
    char byte;
    is_ready_ = ::read(reader.get(), &byte, 1) == 1;
  }
  ~OtherUsersProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  OtherUsersProcess(const OtherUsersProcess&) = delete;
  OtherUsersProcess& operator=(const OtherUsersProcess&) = delete;
  bool is_ready() const { return is_ready_; }
  pid_t pid() const { return pid_; }
  OwnedFd descriptor() const {
    return OwnedFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }

 private:
  pid_t pid_ = -1;
  bool is_ready_ = false;
};

// A program that is set-gid or has capabilities runs with the uid of who started it: the uid alone
// does not tell it from the process that connected.
TEST_F(MappingMemory, OfAProcessThatMayNotBeInspectedIsRefused) {
  constexpr uint32_t kOtherUid = 54322;
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  for (const int dumpable : {1, 0}) {
    const OtherUsersProcess other(kOtherUid, dumpable);
    ASSERT_TRUE(other.is_ready());
    self = {.pid = other.pid(), .uid = kOtherUid, .gid = 0};
    process = other.descriptor();
    const auto memory = take(mapping);
    ASSERT_EQ(memory.ok(), dumpable == 1);
    if (!memory.ok()) {
      EXPECT_EQ(memory.error().code, EPERM);
    }
  }
}

TEST_F(MappingMemory, NeedsAProcessThatCanBeSeen) {
  self.pid = 0;
  const auto memory = take(mapping);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, EPERM);
}

}  // namespace
}  // namespace lyre
