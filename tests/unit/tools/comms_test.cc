#include "tools/lyre/comms.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "tools/lyre/failure.h"
#include "tools/lyre/telemetry_file.h"

namespace lyre::tools {
namespace {

using nccl_abi::CommSlot;
using nccl_abi::CommView;
using nccl_abi::TelemetryHeader;

constexpr int64_t kNowNs = 100'000'000'000;

class Comms : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "lyre-comms-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void begin(TelemetryHeader* header, int64_t written_ns) const {
    header->magic = nccl_abi::kTelemetryMagic;
    header->version = nccl_abi::kTelemetryVersion;
    header->version_min_reader = nccl_abi::kTelemetryVersionMinReader;
    header->slots = nccl_abi::kTelemetrySlots;
    header->slot_bytes = sizeof(CommSlot);
    header->pid = 4711;
    header->written_ns.store(written_ns);
    header->foreign.store(foreign_);
    std::strcpy(header->last_foreign, "192.0.2.7:4711");
    std::strcpy(header->verbs, verbs_.c_str());
    header->comms_not_shown.store(not_shown_);
    std::strcpy(header->program, "python3");
    std::strcpy(header->host, "node7");
    std::strcpy(header->socket, "/run/lyre/lyred.sock");
  }
  // As the plugin writes it, with one comm in the second slot.
  void write(const std::string& name, const CommView& view, int64_t written_ns = kNowNs) {
    std::vector<uint8_t> bytes(nccl_abi::kTelemetryBytes);
    begin(new (bytes.data()) TelemetryHeader{}, written_ns);
    auto* slots = reinterpret_cast<CommSlot*>(bytes.data() + nccl_abi::kTelemetrySlotsOffset);
    nccl_abi::write_slot(&slots[1], view);
    slots[1].is_used.store(1);
    store(name, bytes);
  }
  void store(const std::string& name, const std::vector<uint8_t>& bytes) const {
    std::ofstream(directory_ + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  /// What another version differs in.
  struct Format {
    uint32_t version = nccl_abi::kTelemetryVersion;
    uint32_t version_min_reader = nccl_abi::kTelemetryVersionMinReader;
    uint32_t slots = nccl_abi::kTelemetrySlots;
    uint32_t slot_bytes = sizeof(CommSlot);
    uint64_t file_bytes = nccl_abi::kTelemetryBytes;
  };
  /// As a plugin of `format` writes it, with one comm in the last slot. What this version does not
  /// know of slot and header is not 0.
  void write_as(const Format& format, const std::string& process, const CommView& view) const {
    std::vector<uint8_t> bytes(format.file_bytes);
    auto* header = new (bytes.data()) TelemetryHeader{};
    begin(header, kNowNs);
    header->version = format.version;
    header->version_min_reader = format.version_min_reader;
    header->slots = format.slots;
    header->slot_bytes = format.slot_bytes;
    std::fill(bytes.begin() + sizeof *header, bytes.begin() + nccl_abi::kTelemetrySlotsOffset,
              0xff);
    std::vector<uint8_t> slot(std::max<size_t>(format.slot_bytes, sizeof(CommSlot)), 0xff);
    auto* known = new (slot.data()) CommSlot{};
    nccl_abi::write_slot(known, view);
    known->is_used.store(1);
    const size_t offset =
        nccl_abi::kTelemetrySlotsOffset + size_t{format.slots - 1} * format.slot_bytes;
    ASSERT_LE(offset + format.slot_bytes, bytes.size());
    std::copy_n(slot.begin(), format.slot_bytes, bytes.begin() + static_cast<ptrdiff_t>(offset));
    store(name_of(process), bytes);
  }
  /// Only the header of a file says so.
  void write_lie(const Format& format, const std::string& process) const {
    TelemetryHeader header{};
    begin(&header, kNowNs);
    header.slots = format.slots;
    header.slot_bytes = format.slot_bytes;
    std::vector<uint8_t> bytes(format.file_bytes);
    std::memcpy(bytes.data(), static_cast<const void*>(&header), sizeof header);
    store(name_of(process), bytes);
  }

  // All slots are used, or none: then the file has a hole in place of them.
  void write_plain(const std::string& process, bool is_full, int64_t written_ns = kNowNs) {
    const std::string path = path_of(process);
    TelemetryHeader header{};
    begin(&header, written_ns);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    CommSlot slot{};
    slot.is_used.store(1);
    file.seekp(nccl_abi::kTelemetrySlotsOffset);
    for (uint32_t i = 0; is_full && i < nccl_abi::kTelemetrySlots; ++i) {
      file.write(reinterpret_cast<const char*>(&slot), sizeof slot);
    }
    file.close();
    ASSERT_EQ(::truncate(path.c_str(), nccl_abi::kTelemetryBytes), 0);
  }

  // The plugin's name for a file of this user.
  static std::string name_of(const std::string& process) {
    return nccl_abi::kTelemetryPrefix + std::to_string(::getuid()) + "-" + process;
  }
  std::string path_of(const std::string& process) const {
    return directory_ + "/" + name_of(process);
  }
  size_t shown_count() const { return read_comms({directory_}, kNowNs).processes.size(); }

  static CommView sample() {
    CommView view{};
    view.id[0] = 0xab;
    view.is_sender = 1;
    view.peer_pid = 12;
    view.waits_for = nccl_abi::WaitsFor::kCredit;
    std::strcpy(view.peer_host, "node8");
    std::strcpy(view.path, "rail0 > 10.9.0.2:5000");
    view.streams = 4;
    view.streams_up = 3;
    view.requests = 2;
    view.messages = 10;
    view.bytes = 3 << 20;
    view.outstanding_bytes = 1 << 20;
    view.oldest_since_ns = kNowNs - 2'000'000'000;
    view.operation_number = view.rank = view.peer_rank = view.channel = -1;
    return view;
  }

  std::string directory_;
  uint64_t foreign_ = 0;
  std::string verbs_;
  uint32_t not_shown_ = 0;
};

TEST_F(Comms, ADirectoryThatWasNamedMustBeThere) {
  EXPECT_NO_THROW(check_telemetry_directory(directory_));
  EXPECT_NO_THROW(check_telemetry_directory("")) << "those by default may be missing";
  write("file", {});
  for (const std::string& wrong : {directory_ + "/none", directory_ + "/file"}) {
    try {
      check_telemetry_directory(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.exit_code(), kExitUsage);
      EXPECT_NE(std::string(failure.what()).find(wrong), std::string::npos) << failure.what();
    }
  }
}

TEST_F(Comms, OfTheHostAndOfItsContainersAreShown) {
  EXPECT_EQ(telemetry_directories(""), (std::vector<std::string>{"/dev/shm", "/dev/shm/lyre"}));
  EXPECT_EQ(telemetry_directories("/a"), std::vector<std::string>{"/a"});
  std::filesystem::create_directory(directory_ + "/lyre");
  write(name_of("4711-0"), sample());
  write("lyre/" + name_of("1-0"), sample());
  EXPECT_EQ(shown_count(), 1u);
  const std::vector<std::string> both{directory_, directory_ + "/lyre", directory_ + "/none"};
  EXPECT_EQ(read_comms(both, kNowNs).processes.size(), 2u);
}

TEST_F(Comms, AreATableForPeople) {
  write(name_of("4711-0"), sample());
  EXPECT_EQ(
      "python3/4711 on node7, daemon /run/lyre/lyred.sock\n"
      "comm      way  ranks  peer      streams     moved  rate  messages  requests  under way  "
      "oldest  waits for       operation  path\n"
      "ab000000  to   -      node8/12  3/4      3.00 MiB     -        10         2   1.00 MiB  "
      "2.00 s  peer's receive  -          rail0 > 10.9.0.2:5000\n",
      comms_text(read_comms({directory_}, kNowNs), nullptr));
}

TEST_F(Comms, StrangersAreCounted) {
  foreign_ = 3;
  write(name_of("4711-0"), sample());
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  EXPECT_NE(comms_text(snapshot, nullptr)
                .find("\n3 foreign connections refused, the last from 192.0.2.7:4711\n"),
            std::string::npos);
  const auto process = comms_json(snapshot, nullptr)["processes"][0];
  EXPECT_EQ(process["foreign_refused"], 3);
  EXPECT_EQ(process["last_foreign"], "192.0.2.7:4711");
}

TEST_F(Comms, RdmaPortsThatAreNotUsedAreNamedWithTheReason) {
  write(name_of("4711-0"), sample());
  EXPECT_FALSE(comms_json(read_comms({directory_}, kNowNs), nullptr)["processes"][0].contains(
      "rdma_not_used"));
  verbs_ = "rxe0: the port is not active";
  write(name_of("4711-0"), sample());
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  EXPECT_NE(comms_text(snapshot, nullptr)
                .find("\nRDMA not used when it attached: rxe0: the port is not active\n"),
            std::string::npos);
  EXPECT_EQ(comms_json(snapshot, nullptr)["processes"][0]["rdma_not_used"], verbs_);
}

TEST_F(Comms, ThoseForWhichAFileHasNoRoomAreCounted) {
  write(name_of("4711-0"), sample());
  EXPECT_FALSE(comms_json(read_comms({directory_}, kNowNs), nullptr)["processes"][0].contains(
      "comms_not_shown"));
  not_shown_ = 7;
  write(name_of("4711-0"), sample());
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  EXPECT_NE(comms_text(snapshot, nullptr).find("\n7 connections of this process are not shown: "),
            std::string::npos);
  EXPECT_EQ(comms_json(snapshot, nullptr)["processes"][0]["comms_not_shown"], 7);
}

TEST_F(Comms, QueuePairsAndCopiesAreInTheDocument) {
  CommView view = sample();
  view.queue_pairs_up = 2;
  view.queue_pairs_lost = 3;
  view.copied_bytes = 4'000'000'000;
  write(name_of("4711-0"), view);
  const auto comm =
      comms_json(read_comms({directory_}, kNowNs), nullptr)["processes"][0]["comms"][0];
  EXPECT_EQ(comm["queue_pairs_up"], 2);
  EXPECT_EQ(comm["queue_pairs_lost"], 3);
  EXPECT_EQ(comm["copied_bytes"], 4'000'000'000);
}

TEST_F(Comms, WhatNcclTellsOfTheOperationIsShown) {
  CommView view = sample();
  std::strcpy(view.operation, "ReduceScatter");
  view.operation_number = 41;
  view.rank = 3;
  view.peer_rank = 4;
  view.channel = 1;
  write(name_of("4711-0"), view);
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  const std::string text = comms_text(snapshot, nullptr);
  EXPECT_NE(text.find("  3 > 4  "), std::string::npos) << text;
  EXPECT_NE(text.find("  ReduceScatter 41  "), std::string::npos) << text;
  const auto comm = comms_json(snapshot, nullptr)["processes"][0]["comms"][0];
  EXPECT_EQ(comm["operation"], "ReduceScatter");
  EXPECT_EQ(comm["operation_number"], 41);
  EXPECT_EQ(comm["rank"], 3);
  EXPECT_EQ(comm["peer_rank"], 4);
  EXPECT_EQ(comm["channel"], 1);
}

TEST_F(Comms, RatesAreOfTheTimeBetweenTwoLooks) {
  CommView view = sample();
  write(name_of("4711-0"), view);
  const CommsSnapshot earlier = read_comms({directory_}, kNowNs);
  view.bytes += 1'000'000;
  write(name_of("4711-0"), view);
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs + 500'000'000);
  const auto json = comms_json(snapshot, &earlier);
  EXPECT_EQ(json["processes"][0]["comms"][0]["bits_per_s"], 16e6);
  EXPECT_EQ(json["processes"][0]["comms"][0]["waits_for"], "peer's receive");
}

// The plugin writes each 200 ms: of 500 ms between two looks, 400 or 600 ms of bytes were counted.
TEST_F(Comms, RatesAreOfTheTimeBetweenTwoWritings) {
  CommView view = sample();
  view.written_ns = kNowNs - 10'000'000;
  write(name_of("4711-0"), view);
  const CommsSnapshot earlier = read_comms({directory_}, kNowNs);
  view.bytes += 750'000'000;
  view.written_ns += 600'000'000;
  write(name_of("4711-0"), view);
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs + 500'000'000);
  EXPECT_EQ(comms_json(snapshot, &earlier)["processes"][0]["comms"][0]["bits_per_s"], 10e9);
}

TEST_F(Comms, WithoutAWritingInBetweenHaveNoRate) {
  CommView view = sample();
  view.written_ns = kNowNs;
  write(name_of("4711-0"), view);
  const CommsSnapshot earlier = read_comms({directory_}, kNowNs);
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs + 100'000'000);
  EXPECT_FALSE(comms_json(snapshot, &earlier)["processes"][0]["comms"][0].contains("bits_per_s"));
}

/// A file as its writer holds it.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {}
  ~LockedFile() { ::close(fd_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  bool lock() const { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int fd_;
};

// It was not shown, also on the host where it was the rank that all others waited for.
TEST_F(Comms, AProcessThatIsStoppedIsShownAsSuch) {
  write(name_of("1-0"), sample(), kNowNs - 60'000'000'000);
  write(name_of("2-0"), sample());
  {
    const LockedFile writer(path_of("1-0"));
    ASSERT_TRUE(writer.lock());
    const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
    ASSERT_EQ(snapshot.processes.size(), 2u);
    EXPECT_EQ(snapshot.processes[0].comms.size(), 1u);
    EXPECT_NE(comms_text(snapshot, nullptr)
                  .find("lyred.sock\nhas written nothing for 1m 00s (stopped?)\ncomm "),
              std::string::npos)
        << comms_text(snapshot, nullptr);
    const auto processes = comms_json(snapshot, nullptr)["processes"];
    EXPECT_EQ(processes[0]["silent_ns"], 60'000'000'000);
    EXPECT_FALSE(processes[1].contains("silent_ns"));
  }
  EXPECT_EQ(shown_count(), 1u) << "a process that has ended holds no lock";
}

TEST_F(Comms, AProcessThatHasNotBegunToWriteIsLeftOut) {
  write(name_of("1-0"), sample(), 0);
  const LockedFile writer(path_of("1-0"));
  ASSERT_TRUE(writer.lock());
  EXPECT_EQ(shown_count(), 0u);
}

// The plugin removes what it can lock.
TEST_F(Comms, AFileThatIsBeingReadCanBeLocked) {
  write(name_of("1-0"), sample(), kNowNs - 60'000'000'000);
  const TelemetryFile file(path_of("1-0"));
  ASSERT_TRUE(file.is_open());
  EXPECT_FALSE(file.is_locked());
  const LockedFile writer(path_of("1-0"));
  EXPECT_TRUE(writer.lock());
  EXPECT_TRUE(file.is_locked());
}

TEST_F(Comms, ADirectoryThatCannotBeReadIsNamed) {
  const std::string missing = directory_ + "/none";
  const std::string unreadable = directory_ + "/file";
  std::ofstream(unreadable) << "no directory";
  const CommsSnapshot snapshot = read_comms({missing, unreadable, directory_}, kNowNs);
  EXPECT_EQ(comms_text(snapshot, nullptr),
            "processes that write there are not shown: cannot read the directory " + unreadable +
                ": Not a directory\n");
  EXPECT_EQ(comms_json(snapshot, nullptr)["directories_not_read"],
            nlohmann::ordered_json::array({unreadable + ": Not a directory"}));
  EXPECT_TRUE(comms_json(read_comms({missing}, kNowNs), nullptr)["directories_not_read"].empty());
}

TEST_F(Comms, WhatIsOldForeignOrDamagedIsLeftOut) {
  write(name_of("1-0"), sample(), kNowNs - 60'000'000'000);
  write("something-else", sample());
  std::ofstream(directory_ + "/" + name_of("2-0")) << "short";
  std::ofstream(directory_ + "/" + name_of("3-0")) << std::string(nccl_abi::kTelemetryBytes, 'x');
  EXPECT_EQ("no process here uses the NCCL plugin\n",
            comms_text(read_comms({directory_}, kNowNs), nullptr));
}

// Any user may put such names into /dev/shm.
TEST_F(Comms, WhatIsNoFileOfThePluginNeitherHangsNorIsRead) {
  write(name_of("1-0"), sample());
  ASSERT_EQ(::mkfifo(path_of("2-0").c_str(), 0666), 0);
  ASSERT_EQ(::mkdir(path_of("3-0").c_str(), 0777), 0);
  ASSERT_EQ(::symlink(path_of("1-0").c_str(), path_of("4-0").c_str()), 0);
  ASSERT_EQ(::symlink("/dev/zero", path_of("5-0").c_str()), 0);
  write(name_of("6-0"), sample());
  ASSERT_EQ(::truncate(path_of("6-0").c_str(), nccl_abi::kTelemetryBytes - 1), 0);
  write(name_of("7-0"), sample());
  ASSERT_EQ(::truncate(path_of("7-0").c_str(), off_t{1} << 40), 0);
  EXPECT_EQ(shown_count(), 1u);
}

// Root of a container in a user namespace has another uid on the host. Its comms were not shown.
TEST_F(Comms, OfAUserNamespaceAreShownWithTheOwnersUid) {
  const uid_t owner = ::geteuid() == 0 ? 65531 : ::getuid();
  const std::string name = nccl_abi::telemetry_prefix(0) + "1-0";
  write(name, sample());
  ASSERT_EQ(::chown((directory_ + "/" + name).c_str(), owner, static_cast<gid_t>(-1)), 0);
  write(nccl_abi::telemetry_prefix(::getuid() + 1) + "2-0", sample());
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  ASSERT_EQ(snapshot.processes.size(), 2u);
  const auto json = comms_json(snapshot, nullptr);
  EXPECT_EQ(json["processes"][0]["uid"], owner);
  EXPECT_EQ(json["processes"][1]["uid"], ::getuid());
}

// A container's umask may be 077.
TEST_F(Comms, FilesThatTheCallerMayNotReadAreCounted) {
  write(name_of("1-0"), sample());
  ASSERT_EQ(::chmod(path_of("1-0").c_str(), 0), 0);
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_user = ::geteuid() != 0 || ::setresuid(65531, 65531, 65531) == 0;
    const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
    ::_exit(is_user && comms_json(snapshot, nullptr)["files_not_read"] == 1 &&
                    comms_text(snapshot, nullptr) ==
                        "1 telemetry files left out: this user may not read them\n"
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::unlink(path_of("1-0").c_str()), 0);
  EXPECT_EQ(read_comms({directory_}, kNowNs).files_not_read, 0u);
}

// A mapped page of it would be SIGBUS.
TEST_F(Comms, AFileMayBeTruncatedWhileItIsRead) {
  write(name_of("1-0"), sample());
  const TelemetryFile file(path_of("1-0"));
  ASSERT_TRUE(file.is_open());
  EXPECT_TRUE(file.read_slot(1).has_value());
  EXPECT_FALSE(file.read_slot(0).has_value());
  ASSERT_EQ(::truncate(path_of("1-0").c_str(), 100), 0);
  EXPECT_FALSE(file.is_used(1));
  EXPECT_FALSE(file.read_slot(1).has_value());
  EXPECT_FALSE(TelemetryFile(path_of("1-0")).is_open());
}

// A job's image holds its own plugin. Such a job was in no table and no metric.
TEST_F(Comms, OfALaterReleaseWithMoreFieldsAreShown) {
  const Format later{.version = nccl_abi::kTelemetryVersion + 3,
                     .slots = 3000,
                     .slot_bytes = sizeof(CommSlot) + 512,
                     .file_bytes = nccl_abi::kTelemetryBytesMax};
  write_as(later, "1-0", sample());
  write(name_of("2-0"), sample());
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  ASSERT_EQ(snapshot.processes.size(), 2u);
  ASSERT_EQ(snapshot.processes[0].comms.size(), 1u);
  EXPECT_EQ(std::memcmp(snapshot.processes[0].comms.data(), snapshot.processes[1].comms.data(),
                        sizeof(CommView)),
            0);
  EXPECT_EQ(snapshot.processes[0].host, "node7");
  EXPECT_EQ(snapshot.files_of_other_releases, 0u);
}

TEST_F(Comms, FieldsThatAReleaseDidNotHaveAreZero) {
  CommView view = sample();
  view.copied_bytes = 7;
  constexpr size_t kKnownBytes = offsetof(CommView, messages);
  write_as({.slot_bytes = offsetof(CommSlot, view) + kKnownBytes}, "1-0", view);
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  ASSERT_EQ(snapshot.processes.size(), 1u);
  ASSERT_EQ(snapshot.processes[0].comms.size(), 1u);
  const CommView& shown = snapshot.processes[0].comms[0];
  EXPECT_EQ(std::memcmp(&shown, &view, kKnownBytes), 0);
  EXPECT_EQ(shown.messages, 0u);
  EXPECT_EQ(shown.copied_bytes, 0u);
}

TEST_F(Comms, OfAReleaseThatCannotBeReadAreCountedWhileTheirProcessLives) {
  write_as({.version = nccl_abi::kTelemetryVersion + 2,
            .version_min_reader = nccl_abi::kTelemetryVersion + 1},
           "1-0", sample());
  write_as({.version = nccl_abi::kTelemetryVersionMin - 1}, "2-0", sample());
  // Only magic and versions have their meaning in such a file.
  write_as({.version = 99, .version_min_reader = 99, .slots = 1, .slot_bytes = 0}, "3-0", sample());
  write_as({.version = 99, .version_min_reader = 99}, "dead-0", sample());
  const LockedFile first(path_of("1-0"));
  const LockedFile second(path_of("2-0"));
  const LockedFile third(path_of("3-0"));
  ASSERT_TRUE(first.lock() && second.lock() && third.lock());
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  EXPECT_TRUE(snapshot.processes.empty());
  EXPECT_EQ(comms_text(snapshot, nullptr),
            "3 telemetry files left out: written by plugins of releases that this lyre cannot "
            "read\n");
  EXPECT_EQ(comms_json(snapshot, nullptr)["files_of_other_releases"], 3);
}

TEST_F(Comms, AHeaderThatLiesAboutItsSlotsIsIgnored) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  constexpr uint32_t kSlots = nccl_abi::kTelemetrySlots;
  const Format lies[] = {
      {.slots = kSlots + 1},
      {.slots = kMost},
      {.slots = kMost, .slot_bytes = kMost},
      {.slots = kMost, .slot_bytes = 0},
      // The product is 0 in 32 bits.
      {.slots = nccl_abi::kTelemetrySlotsMax, .slot_bytes = uint32_t{1} << 20},
      {.slots = nccl_abi::kTelemetrySlotsMax + 1,
       .slot_bytes = 8,
       .file_bytes = nccl_abi::kTelemetryBytesMax},
      {.slot_bytes = 0},
      {.slot_bytes = offsetof(CommSlot, view) - 1},
      {.slot_bytes = sizeof(CommSlot) + 1},
      {.slot_bytes = kMost},
      {.slots = 1, .slot_bytes = kMost},
      {.file_bytes = nccl_abi::kTelemetrySlotsOffset},
      {.file_bytes = nccl_abi::kTelemetrySlotsOffset - 1},
      {.file_bytes = nccl_abi::kTelemetryBytesMax + 1},
  };
  for (size_t i = 0; i < std::size(lies); ++i) {
    write_lie(lies[i], "1-0");
    EXPECT_FALSE(TelemetryFile(path_of("1-0")).is_open()) << i;
    EXPECT_EQ(shown_count(), 0u) << i;
  }
  write_lie({.slots = 0, .file_bytes = nccl_abi::kTelemetrySlotsOffset}, "1-0");
  EXPECT_EQ(shown_count(), 1u) << "no slots are within any file";
}

// A user with many files made `lyre metrics` run out of memory and time.
TEST_F(Comms, FilesOverTheLimitOfAUserAreCounted) {
  for (uint32_t i = 0; i < kTelemetryFilesPerUidMax; ++i) {
    write_plain(std::to_string(i) + "-0", false);
  }
  write_plain("old-0", false, kNowNs - 60'000'000'000);
  CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  EXPECT_EQ(snapshot.processes.size(), kTelemetryFilesPerUidMax);
  EXPECT_EQ(snapshot.files_left_out, 0u);
  EXPECT_EQ(comms_text(snapshot, nullptr).find("left out"), std::string::npos);

  write_plain("more-0", false);
  snapshot = read_comms({directory_}, kNowNs);
  EXPECT_EQ(snapshot.processes.size(), kTelemetryFilesPerUidMax);
  EXPECT_EQ(comms_json(snapshot, nullptr)["files_left_out"], 1);
  EXPECT_NE(comms_text(snapshot, nullptr)
                .find("\n1 telemetry files left out: at most 1024 of a user and 4096 of all are "
                      "read, with 16384 and 65536 comms\n"),
            std::string::npos);
  write(nccl_abi::telemetry_prefix(::getuid() + 1) + "1-0", sample());
  EXPECT_EQ(read_comms({directory_}, kNowNs).files_left_out, 2u) << "a name makes no other user";
}

TEST_F(Comms, AUserWithTooManyCommsHasNoFurtherFile) {
  const uint32_t files_max = kTelemetryCommsPerUidMax / nccl_abi::kTelemetrySlots;
  for (uint32_t i = 0; i <= files_max; ++i) write_plain(std::to_string(i) + "-0", true);
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs);
  EXPECT_EQ(snapshot.processes.size(), files_max);
  EXPECT_EQ(snapshot.files_left_out, 1u);
}

// Another user's copy of a file was taken for it.
TEST_F(Comms, ARateIsOfOneUsersFile) {
  CommView view = sample();
  write(name_of("4711-0"), view);
  CommsSnapshot earlier = read_comms({directory_}, kNowNs);
  view.bytes += 1'000'000;
  write(name_of("4711-0"), view);
  const CommsSnapshot snapshot = read_comms({directory_}, kNowNs + 500'000'000);
  ASSERT_EQ(earlier.processes.size(), 1u);
  EXPECT_EQ(earlier.processes[0].uid, ::getuid());
  ++earlier.processes[0].uid;
  const auto process = comms_json(snapshot, &earlier)["processes"][0];
  EXPECT_EQ(process["uid"], ::getuid());
  EXPECT_FALSE(process["comms"][0].contains("bits_per_s"));
}

TEST_F(Comms, ASlotThatIsBeingWrittenIsLeftOut) {
  write(name_of("1-0"), sample());
  const uint32_t odd = 3;
  std::fstream(path_of("1-0"), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(nccl_abi::kTelemetrySlotsOffset + sizeof(CommSlot))
      .write(reinterpret_cast<const char*>(&odd), sizeof odd);
  ASSERT_EQ(shown_count(), 1u);
  EXPECT_TRUE(read_comms({directory_}, kNowNs).processes[0].comms.empty());
}

TEST_F(Comms, NonsenseInASlotIsShownAsSuch) {
  CommView view = sample();
  view.waits_for = static_cast<nccl_abi::WaitsFor>(77);
  std::memset(view.peer_host, 0x1b, sizeof view.peer_host);
  write(name_of("4711-0"), view);
  const std::string text = comms_text(read_comms({directory_}, kNowNs), nullptr);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace lyre::tools
