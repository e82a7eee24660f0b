#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/protocol/handover_records.h"
#include "tests/unit/daemon/captured_log.h"
#include "tests/unit/daemon/control_fixture.h"

/// Clients that are older and newer than the daemon: their version numbers are varied around what
/// this daemon speaks.
namespace lyre {
namespace {

using channel::VersionRange;

constexpr VersionRange older(VersionRange own) {
  return {static_cast<uint16_t>(own.min - 2), static_cast<uint16_t>(own.min - 1)};
}
constexpr VersionRange newer(VersionRange own) {
  return {static_cast<uint16_t>(own.max + 1), static_cast<uint16_t>(own.max + 2)};
}
/// Ranges that share a version with `own`: as old, as new, and wider than it.
std::vector<VersionRange> overlapping(VersionRange own) {
  const auto before = static_cast<uint16_t>(own.min - 1);
  const auto after = static_cast<uint16_t>(own.max + 1);
  return {own, {before, own.min}, {own.max, after}, {before, after}};
}

class VersionSkewTest : public ControlServerTest {
 protected:
  void ask(RawClient& client, const channel::AttachRequest& request) {
    client.send(request);
    run();
  }
  void hang_up(RawClient& client) {
    client.hang_up();
    run();
    workers_.answer_detaches();
    std::vector<Expulsion> none;
    registry_.poll(none);
  }
  static std::string refusal(const char* protocol, VersionRange own, VersionRange theirs) {
    return channel::no_common_version(protocol, "this daemon", own, "the client's Lyre", theirs)
        .text;
  }
  /// The version that the context's header names.
  uint32_t abi_of(RawClient& client) {
    void* memory = ::mmap(nullptr, channel::kHeaderBytes, PROT_READ, MAP_SHARED,
                          client.descriptors().at(0).get(), 0);
    if (memory == MAP_FAILED) return 0;
    const uint32_t version = static_cast<const channel::ContextHeader*>(memory)->abi_version;
    ::munmap(memory, channel::kHeaderBytes);
    return version;
  }
};

TEST_F(VersionSkewTest, ACommonVersionOfBothProtocolsIsEnough) {
  for (const VersionRange control : overlapping(channel::kControlVersions)) {
    for (const VersionRange abi : overlapping(channel::kAbiVersions)) {
      RawClient client(path_);
      channel::AttachRequest request = attach_request();
      request.header.versions = control;
      request.abi_versions = abi;
      ask(client, request);
      const auto reply = expect_message<channel::AttachReply>(client, Control::kAttached);
      EXPECT_EQ(reply.error, 0) << reply.text;
      ASSERT_FALSE(client.descriptors().empty());
      EXPECT_EQ(abi_of(client), *channel::common_version(channel::kAbiVersions, abi));
      hang_up(client);
    }
  }
}

TEST_F(VersionSkewTest, WithoutACommonControlVersionBothSidesHaveALine) {
  const VersionRange own = channel::kControlVersions;
  for (const VersionRange theirs : {older(own), newer(own), VersionRange{3, 0}}) {
    const CapturedLog log;
    RawClient client(path_);
    channel::AttachRequest request = attach_request();
    request.header.versions = theirs;
    ask(client, request);
    const std::string line = refusal("control", own, theirs);
    expect_goodbye(client, line);
    EXPECT_NE(log.text().find(line), std::string::npos) << log.text();
  }
  expect_still_serving();
}

TEST_F(VersionSkewTest, WithoutACommonChannelVersionBothSidesHaveALine) {
  const VersionRange own = channel::kAbiVersions;
  for (const VersionRange theirs : {older(own), newer(own), VersionRange{6, 0}}) {
    const CapturedLog log;
    RawClient client(path_);
    channel::AttachRequest request = attach_request();
    request.abi_versions = theirs;
    ask(client, request);
    const auto reply = expect_message<channel::AttachReply>(client, Control::kAttached);
    EXPECT_EQ(reply.error, EPROTONOSUPPORT);
    const std::string line = refusal("channel", own, theirs);
    EXPECT_EQ(std::string(reply.text), line);
    EXPECT_NE(log.text().find(line), std::string::npos) << log.text();
    // It may try again with what it has.
    ask(client, attach_request());
    EXPECT_EQ(expect_message<channel::AttachReply>(client, Control::kAttached).error, 0);
    hang_up(client);
  }
}

TEST_F(VersionSkewTest, OnlyANewerClientsFirstRequestMayBeLonger) {
  channel::AttachRequest request = attach_request();
  std::vector<uint8_t> longer(sizeof request + 24, 0x5a);
  request.header.bytes = static_cast<uint32_t>(longer.size());
  std::memcpy(longer.data(), &request, sizeof request);
  RawClient same(path_);
  same.send_bytes(longer);
  run();
  expect_goodbye(same, "a request of 120 bytes where 96 are due");

  request.header.versions.max = channel::kControlVersions.max + 1;
  std::memcpy(longer.data(), &request, sizeof request);
  RawClient newer_client(path_);
  newer_client.send_bytes(longer);
  run();
  EXPECT_EQ(expect_message<channel::AttachReply>(newer_client, Control::kAttached).error, 0);
}

/// A program of the next control version, whose request has 16 bytes more.
template <typename Message>
std::vector<uint8_t> longer_request(Message request) {
  request.header.versions.max = channel::kControlVersions.max + 1;
  std::vector<uint8_t> out(sizeof request + 16, 0x5a);
  request.header.bytes = static_cast<uint32_t>(out.size());
  std::memcpy(out.data(), &request, sizeof request);
  return out;
}

TEST_F(VersionSkewTest, ANewerProgramsUpgradeIsTaken) {
  int asked = 0;
  server_->serve_upgrades([&](const auto& answer) {
    ++asked;
    answer({.status = Ok{}, .pid = 7, .pause_us = 1, .release = "next"});
  });
  RawClient newer_program(path_);
  newer_program.send_bytes(
      longer_request(make_message<channel::UpgradeRequest>(Control::kUpgrade)));
  run();
  EXPECT_EQ(asked, 1);
  const auto reply = expect_message<channel::UpgradeReply>(newer_program, Control::kUpgradeReply);
  EXPECT_EQ(reply.error, 0) << reply.text;
}

TEST_F(VersionSkewTest, ANewerProgramsCaptureIsTakenOrRefusedByItsVersion) {
  auto request = make_message<channel::CaptureRequest>(Control::kCapture);
  request.version = channel::kCaptureVersion;
  request.snap_bytes = 96;
  RawClient newer_program(path_);
  newer_program.send_bytes(longer_request(request));
  run();
  EXPECT_NE(expect_message<channel::CaptureReply>(newer_program, Control::kCaptured).error, 0)
      << "this socket shows no packets";

  request.version = channel::kCaptureVersion + 1;
  std::vector<uint8_t> of_these_versions = longer_request(request);
  std::memcpy(of_these_versions.data() + offsetof(channel::ControlHeader, versions),
              &channel::kControlVersions, sizeof channel::kControlVersions);
  for (const std::vector<uint8_t>& bytes : {longer_request(request), of_these_versions}) {
    RawClient another(path_);
    another.send_bytes(bytes);
    run();
    expect_goodbye(another, "captures have version " + std::to_string(channel::kCaptureVersion) +
                                " here, not " + std::to_string(channel::kCaptureVersion + 1) +
                                ": use the `lyre` that was installed with the daemon");
  }
}

TEST_F(VersionSkewTest, TheSuccessorIsToldTheControlVersionOfAClient) {
  for (const VersionRange control : overlapping(channel::kControlVersions)) {
    RawClient client(path_);
    channel::AttachRequest request = attach_request();
    request.header.versions = control;
    ask(client, request);
    record::Writer records;
    std::vector<int> descriptors;
    ASSERT_EQ(server_->write_handover(0, records, descriptors), 1u);
    record::Reader in(records.bytes());
    AttachedRecord record;
    ASSERT_TRUE(in.take(record::Kind::kAttached, kDaemonHandoverVersion,
                        [&](record::FieldReader& fields) { list_attached(fields, record); }));
    EXPECT_EQ(record.control_version, *channel::common_version(channel::kControlVersions, control));
    hang_up(client);
  }
}

}  // namespace
}  // namespace lyre
