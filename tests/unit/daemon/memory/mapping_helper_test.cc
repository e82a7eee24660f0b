#include "daemon/memory/mapping_helper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "daemon/memory/helper_program.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/memory/mapping_protocol.h"
#include "daemon/protocol/control_message.h"
#include "daemon/upgrade/new_process.h"

namespace lyre {
namespace {

constexpr int kPatienceMs = 60'000;
/// Which mapping is opened when the client has said something.
constexpr uint64_t kOpenedLater = 0x1000;

Result<OwnedFd> open_a_file(int client, const ForeignMapping& mapping) {
  char said;
  if (mapping.begin == kOpenedLater && ::read(client, &said, 1) != 1) return Error{EIO, ""};
  return OwnedFd(::memfd_create("lyre-test", MFD_CLOEXEC));
}

/// This program is the one that a replaced helper executes. Before main(), which knows no such
/// argument.
bool run_as_replaced_helper() {
  char words[256] = {};
  FILE* const file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) return false;
  const size_t bytes = std::fread(words, 1, sizeof words - 1, file);
  std::fclose(file);
  const size_t first = std::strlen(words) + 1;
  if (first >= bytes || std::strcmp(words + first, kMappingHelperArgument) != 0) return false;
  run_mapping_helper(OwnedFd(kMappingHelperDescriptor), open_a_file, program_path());
}

[[maybe_unused]] const bool g_is_replaced_helper = run_as_replaced_helper();

MappingRequest request_of(uint64_t id, uint64_t begin = 0) {
  return {.header = {.version = kMappingVersion,
                     .bytes = sizeof(MappingRequest),
                     .action = MappingAction::kOpen,
                     .id = id},
          .begin = begin,
          .end = 0};
}

/// A request that is longer than those of this version.
struct LaterRequest {
  MappingRequest known;
  uint64_t added[8];
};

class MappingHelperTest : public testing::Test {
 protected:
  void start(const std::string& program) {
    auto helper = MappingHelperProcess::start(program, open_a_file);
    ASSERT_TRUE(helper.ok()) << helper.error().text;
    helper_ = std::move(*helper);
    expect_release();
  }
  void send(std::span<const uint8_t> packet, bool has_client = true) {
    const int client = client_.get();
    const Status sent = send_packet(helper_.socket(), packet, {&client, has_client ? 1u : 0u});
    EXPECT_TRUE(sent.ok());
  }
  void ask_to_be_replaced() {
    MappingHeader request = request_of(kMappingHelperId).header;
    request.bytes = sizeof request;
    request.action = MappingAction::kReplace;
    send(bytes_of(request), /*has_client=*/false);
  }
  /// The next one, with `file_` if it has a descriptor.
  MappingReply next_reply() {
    MappingReply reply{};
    reply.error = ETIME;
    pollfd entry{.fd = helper_.socket(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&entry, 1, kPatienceMs), 1);
    auto packet = receive_packet(helper_.socket(),
                                 std::span(reinterpret_cast<uint8_t*>(&reply), sizeof reply));
    EXPECT_TRUE(packet.ok() && packet->bytes == sizeof reply) << "the helper has ended";
    if (packet.ok()) file_ = std::move(packet->descriptor);
    EXPECT_EQ(reply.version, kMappingVersion);
    EXPECT_EQ(reply.bytes, sizeof reply);
    return reply;
  }
  void expect_release() {
    const MappingReply reply = next_reply();
    EXPECT_EQ(reply.id, kMappingHelperId);
    EXPECT_EQ(reply.error, 0) << reply.text;
    EXPECT_STRNE(reply.text, "");
  }
  void expect_to_serve(uint64_t id) {
    send(bytes_of(request_of(id)));
    const MappingReply reply = next_reply();
    EXPECT_EQ(reply.id, id);
    EXPECT_EQ(reply.error, 0) << reply.text;
    EXPECT_TRUE(file_.is_open());
  }
  /// It is answered with EPROTO, and the next one is served.
  void expect_not_known(std::span<const uint8_t> packet, uint64_t id, bool has_client = true) {
    send(packet, has_client);
    const MappingReply reply = next_reply();
    EXPECT_EQ(reply.id, id);
    EXPECT_EQ(reply.error, EPROTO);
    expect_to_serve(id + 1);
  }
  std::string of_helper(const char* name) const {
    std::ifstream file("/proc/" + std::to_string(helper_.pid()) + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// The lines of its status, but for what it could have.
  std::string capabilities() const {
    std::istringstream status(of_helper("status"));
    std::string out;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Cap") && !line.starts_with("CapBnd:")) out += line + '\n';
    }
    return out;
  }

  OwnedFd client_{::memfd_create("lyre-test", MFD_CLOEXEC)};
  OwnedFd file_;
  MappingHelperProcess helper_;
};

// A daemon of a later release ended the helper by its first request.
TEST_F(MappingHelperTest, ARequestOfALaterVersionIsAnswered) {
  start({});
  LaterRequest later{.known = request_of(10), .added = {}};
  later.known.header.version = kMappingVersion + 1;
  later.known.header.bytes = sizeof later;
  expect_not_known(bytes_of(later), 10);
  MappingRequest as_long = request_of(20);
  as_long.header.version = kMappingVersion + 1;
  expect_not_known(bytes_of(as_long), 20);
}

TEST_F(MappingHelperTest, ARequestOfAnotherLengthIsAnswered) {
  start({});
  const LaterRequest longer{.known = request_of(10), .added = {}};
  expect_not_known(bytes_of(longer), 10);
  const MappingRequest request = request_of(20);
  expect_not_known(bytes_of(request).first(sizeof request - 1), 20);
  expect_not_known(bytes_of(request).first(1), kMappingHelperId);  // its name is not there
}

TEST_F(MappingHelperTest, ARequestThatIsNotKnownIsAnswered) {
  start({});
  MappingRequest request = request_of(10);
  expect_not_known(bytes_of(request), 10, /*has_client=*/false);
  request.header.action = static_cast<MappingAction>(77);
  expect_not_known(bytes_of(request), 10);
  request.header.action = MappingAction::kReplace;
  expect_not_known(bytes_of(request), 10);  // it has a descriptor
}

TEST_F(MappingHelperTest, ExecutesItsProgramAgain) {
  start(program_path());
  expect_to_serve(1);
  const std::string before = capabilities();
  ask_to_be_replaced();
  const MappingReply reply = next_reply();
  if (reply.error == EPERM) GTEST_SKIP() << reply.text;  // with capabilities, and not root's file
  ASSERT_EQ(reply.error, 0) << reply.text;
  EXPECT_EQ(reply.id, kMappingHelperId);
  EXPECT_EQ(of_helper("cmdline"),
            std::string("lyred\0", 6) + kMappingHelperArgument + std::string(1, '\0'));
  EXPECT_EQ(of_helper("comm"), "lyred-memory\n");
  EXPECT_EQ(capabilities(), before);
  expect_to_serve(2);
  ask_to_be_replaced();  // a later upgrade
  expect_release();
  EXPECT_EQ(capabilities(), before);
}

// The number of a later version may not keep a helper from being replaced by it.
TEST_F(MappingHelperTest, ALaterVersionHasItReplaced) {
  start({});
  LaterRequest later{.known = request_of(kMappingHelperId), .added = {}};
  later.known.header.version = kMappingVersion + 1;
  later.known.header.bytes = sizeof later;
  later.known.header.action = MappingAction::kReplace;
  send(bytes_of(later), /*has_client=*/false);
  EXPECT_EQ(next_reply().error, ENOTSUP);
}

TEST_F(MappingHelperTest, WhatItHasBegunIsAnsweredFirst) {
  start({});
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  client_.reset(ends[0]);
  const OwnedFd others(ends[1]);
  send(bytes_of(request_of(1, kOpenedLater)));
  ask_to_be_replaced();
  send(bytes_of(request_of(2)));
  ASSERT_EQ(::write(others.get(), "!", 1), 1);
  EXPECT_EQ(next_reply().id, 1u);
  EXPECT_EQ(next_reply().id, kMappingHelperId);
  EXPECT_EQ(next_reply().id, 2u);
}

TEST_F(MappingHelperTest, GoesOnWhenItsProgramCannotBeExecuted) {
  start("/nonexistent/lyred");
  ask_to_be_replaced();
  const MappingReply reply = next_reply();
  EXPECT_EQ(reply.id, kMappingHelperId);
  EXPECT_EQ(reply.error, ENOENT);
  expect_to_serve(1);
}

TEST_F(MappingHelperTest, KeepsNothingInheritableWhenItsProgramIsNone) {
  start("/etc/passwd");  // root's, and nobody may execute it
  const std::string before = capabilities();
  ask_to_be_replaced();
  const MappingReply reply = next_reply();
  EXPECT_EQ(reply.id, kMappingHelperId);
  EXPECT_EQ(reply.error, EACCES) << reply.text;
  EXPECT_EQ(capabilities(), before);
  expect_to_serve(1);
}

// A daemon in the hands of an attacker would have the helper's capabilities.
TEST_F(MappingHelperTest, ExecutesNoFileThatOthersMayWrite) {
  if ((effective_capabilities() & kMappingHelperCapabilities) == 0) {
    GTEST_SKIP() << "needs a capability that a program could be given";
  }
  char path[] = "/tmp/lyre-program-XXXXXX";
  const OwnedFd file(::mkostemp(path, O_CLOEXEC));
  ASSERT_TRUE(file.is_open());
  ASSERT_EQ(::fchmod(file.get(), 0777), 0);
  start(path);
  ask_to_be_replaced();
  const MappingReply reply = next_reply();
  ::unlink(path);
  EXPECT_EQ(reply.error, EPERM);
  EXPECT_EQ(reply.text, std::string(path) + ": not a file that only root may write");
  expect_to_serve(1);
}

}  // namespace
}  // namespace lyre
