#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/daemon/captured_log.h"
#include "tests/unit/daemon/control_fixture.h"

namespace lyre {
namespace {

constexpr uint64_t kMoreThanAllowed = 2 << 20;

// A client asks again, in case that the limit has room.
TEST_F(ControlServerTest, TheSameRefusalOfMemoryIsLoggedOnceForAClient) {
  const CapturedLog captured;
  const OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), kMoreThanAllowed), 0);
  RawClient client(path_);
  client.send(attach_request());
  run();
  ASSERT_EQ(expect_message<channel::AttachReply>(client, Control::kAttached).error, 0);
  auto request = make_message<channel::RegisterRequest>(Control::kRegister);
  request.source = channel::RegionSource::kDescriptor;
  request.bytes = kMoreThanAllowed;
  for (int i = 0; i < 2; ++i) {
    client.send_with(request, {file.get()});
    run();
    EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kRegistered).error, EDQUOT);
  }
  EXPECT_EQ(captured.count("not registered: a client has at most 1 MiB"), 1u) << captured.text();
}

}  // namespace
}  // namespace lyre
