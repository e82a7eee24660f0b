#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "stack/base/page_size.h"
#include "tests/unit/daemon/control_fixture.h"
#include "tests/unit/daemon/no_descriptors_left.h"

// A daemon that has no number left for the descriptor that comes along with a client's message: the
// kernel shortens the message as one whose sender passed too many.
namespace lyre {
namespace {

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

// Its request cannot even be taken.
TEST_F(OutOfDescriptors, WithoutTheSpareOneAClientIsHungUpOnAndMayAttachAgain) {
  {
    const NoDescriptorsLeft none;
    pass_file();
    expect_refused();
    const OwnedFd spare(::eventfd(0, EFD_CLOEXEC));
    ASSERT_TRUE(spare.is_open());
    pass_file();
    const auto end = client_->receive();
    ASSERT_TRUE(end.has_value());
    EXPECT_TRUE(end->empty()) << "no Goodbye";
  }
  EXPECT_EQ(server_->counters().malformed, 0u);
  ASSERT_FALSE(workers_.posted[0].empty());
  EXPECT_TRUE(workers_.posted[0].back().resets_sessions) << "peers would take it for dead";
  workers_.answer_detaches();
  expect_still_serving();
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

// The helper's answer stayed in its socket, and the control thread looked at it again and again.
TEST_F(OutOfDescriptors, AMappingIsRefused) {
  constexpr uint64_t kBegin = 0x7f0000000000;
  auto asked = request(channel::RegionSource::kSharedAnonymous);
  asked.mapping_begin = kBegin;
  asked.mapping_end = kBegin + system_page_bytes();
  client_->send(asked);
  run();
  ASSERT_EQ(helper_.take(), std::vector{kBegin});
  {
    const NoDescriptorsLeft none;
    helper_.answer(kBegin, file_.get());
    run();
    expect_refused();
  }
  expect_registers();
}

}  // namespace
}  // namespace lyre
