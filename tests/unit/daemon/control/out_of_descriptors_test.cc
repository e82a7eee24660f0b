#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <vector>

#include "stack/base/page_size.h"
#include "tests/support/no_descriptors_left.h"
#include "tests/unit/daemon/captured_log.h"
#include "tests/unit/daemon/control_fixture.h"

// A daemon that has no number left for the descriptor that comes along with a client's message: the
// kernel shortens the message as one whose sender passed too many.
namespace lyre {
namespace {

using test::NoDescriptorsLeft;

class OutOfDescriptors : public ControlServerTest {
 protected:
  OutOfDescriptors() : file_(::memfd_create("lyre-test", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(system_page_bytes())), 0);
    client_.emplace(path_);
    client_->send(attach_request());
    run();
    EXPECT_EQ(expect_message<channel::AttachReply>(*client_, Control::kAttached).error, 0);
  }
  static channel::RegisterRequest request(channel::RegionSource source) {
    auto out = make_message<channel::RegisterRequest>(Control::kRegister);
    out.source = source;
    out.bytes = system_page_bytes();
    return out;
  }
  void pass_file() {
    client_->send_with(request(channel::RegionSource::kDescriptor), {file_.get()});
    run();
  }
  void expect_refused() {
    const auto reply = expect_message<channel::RegionReply>(*client_, Control::kRegistered);
    EXPECT_EQ(reply.error, EMFILE);
    EXPECT_STREQ(reply.text, "the daemon has no descriptor left (LimitNOFILE)");
  }
  bool is_answered() const {
    char byte;
    return ::recv(client_->fd(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
  /// What the client registers is known to workers.
  void expect_registers() {
    for (auto& posted : workers_.posted) posted.clear();
    pass_file();
    ASSERT_EQ(workers_.posted[1].size(), 1u);
    EXPECT_EQ(workers_.posted[1][0].kind, worker::Command::Kind::kAddRegion);
  }

  OwnedFd file_;
  std::optional<RawClient> client_;
};

TEST_F(OutOfDescriptors, ARegistrationIsRefusedAndItsClientIsNotToBlame) {
  {
    const NoDescriptorsLeft none;
    for (int i = 0; i < 2; ++i) {
      pass_file();
      expect_refused();
    }
  }
  EXPECT_EQ(server_->counters().out_of_descriptors, 2u);
  EXPECT_EQ(server_->counters().malformed, 0u);
  expect_registers();
}

// A thread that closes the last file may still have the number of the spare one.
TEST_F(OutOfDescriptors, WithoutTheSpareOneARequestWaits) {
  const NoDescriptorsLeft none;
  pass_file();
  expect_refused();
  OwnedFd other(::eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(other.is_open());
  const NoDescriptorsLeft still_none;  // threads of other tests may have closed theirs meanwhile
  pass_file();
  EXPECT_FALSE(is_answered());
  other.reset();
  ASSERT_TRUE(run_until([this] { return is_answered(); }));
  expect_refused();
  EXPECT_EQ(server_->counters().malformed, 0u);
}

TEST_F(OutOfDescriptors, AClientWhoseDescriptorNeverComesIsToldSo) {
  {
    const NoDescriptorsLeft none;
    pass_file();
    expect_refused();
    const OwnedFd other(::eventfd(0, EFD_CLOEXEC));
    pass_file();
    ASSERT_TRUE(run_until([this] { return is_answered(); }));
    expect_goodbye(*client_,
                   "its descriptor cannot be received: the daemon has none left (LimitNOFILE), or "
                   "a security module denies the file");
  }
  EXPECT_EQ(server_->counters().malformed, 0u);
  workers_.answer_detaches();
  expect_still_serving();
}

// Each try had a line, ten in a second.
TEST_F(OutOfDescriptors, ThatClientsWaitIsLoggedOnce) {
  constexpr const char* kBegin = "out of descriptors or memory: new clients wait";
  constexpr const char* kEnd = "new clients are accepted again";
  const RawClient waits(path_);
  const auto accepted = server_->counters().accepted;
  CapturedLog log;
  {
    const NoDescriptorsLeft none;
    for (int pauses = 0; pauses < 3; ++pauses) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(150));
    }
  }
  EXPECT_EQ(server_->counters().accepted, accepted);
  EXPECT_EQ(log.count(kBegin), 1u) << log.text();
  std::vector<RawClient> later;
  ASSERT_TRUE(run_until([&] {
    later.clear();
    later.emplace_back(path_);
    return log.has(kEnd);
  }));
  EXPECT_EQ(log.count(kBegin), 1u);
  EXPECT_EQ(log.count(kEnd), 1u);
}

TEST_F(OutOfDescriptors, TooManyOfThemAreABreachAlsoThen) {
  {
    const NoDescriptorsLeft none;
    client_->send_with(request(channel::RegionSource::kDescriptor), {file_.get(), file_.get()});
    run();
    expect_goodbye(*client_, "descriptors that are not allowed");
  }
  workers_.answer_detaches();
  expect_still_serving();
}

TEST_F(OutOfDescriptors, ThoseOfRequestsThatCarryNoneAreABreachAlsoThen) {
  {
    const NoDescriptorsLeft none;
    client_->send_with(attach_request(), {file_.get()});
    run();
    expect_goodbye(*client_, "descriptors that are not allowed");
  }
  workers_.answer_detaches();
  expect_still_serving();
}

// Taken without a number, it might be the last descriptor of memory, which ends in this thread
// then.
TEST_F(OutOfDescriptors, AMappingWaits) {
  constexpr uint64_t kBegin = 0x7f0000000000;
  auto asked = request(channel::RegionSource::kSharedAnonymous);
  asked.mapping_begin = kBegin;
  asked.mapping_end = kBegin + system_page_bytes();
  client_->send(asked);
  run();
  ASSERT_EQ(helper_.take(), std::vector{kBegin});
  for (auto& posted : workers_.posted) posted.clear();
  {
    const NoDescriptorsLeft none;
    helper_.answer(kBegin, file_.get());
    run();
    EXPECT_TRUE(workers_.posted[1].empty());
  }
  ASSERT_TRUE(run_until([this] { return !workers_.posted[1].empty(); }));
  EXPECT_EQ(workers_.posted[1][0].kind, worker::Command::Kind::kAddRegion);
}

}  // namespace
}  // namespace lyre
