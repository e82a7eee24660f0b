#include "nccl_adapter/daemon_link/connecting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nccl_adapter/limits.h"
#include "tests/unit/nccl_adapter/support/comms.h"

namespace lyre::nccl_adapter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ConnectingComms : public Comms {
 protected:
  Connecting connecting_{7};
};

TEST_F(ConnectingComms, AreFoundByTheirNoteUntilTheyAreForgotten) {
  const uint64_t note = connecting_.add(sender_.get(), 0);
  EXPECT_EQ(connecting_.find(note), sender_.get());
  EXPECT_EQ(connecting_.find(note + 1), nullptr);
  connecting_.forget(sender_.get());
  EXPECT_EQ(connecting_.find(note), nullptr);
}

TEST_F(ConnectingComms, HaveNotesThatAreNot0) {
  Connecting last(UINT64_MAX);
  EXPECT_NE(last.add(sender_.get(), 0), 0u);
}

TEST_F(ConnectingComms, AreAbandonedWhenNobodyAskedForThemForLong) {
  const uint64_t note = connecting_.add(sender_.get(), 0);
  connecting_.note_asked(note, kSecond);
  EXPECT_THAT(connecting_.take_abandoned(kConnectAbandonedNs), IsEmpty());
  EXPECT_THAT(connecting_.take_abandoned(kSecond + kConnectAbandonedNs),
              ElementsAre(sender_.get()));
  EXPECT_EQ(connecting_.find(note), nullptr);
}

TEST_F(ConnectingComms, AreAskedForAnewWhenADaemonIsBack) {
  const uint64_t note = connecting_.add(sender_.get(), 0);
  connecting_.note_all_asked(kSecond);
  EXPECT_THAT(connecting_.take_abandoned(kConnectAbandonedNs), IsEmpty());
  EXPECT_EQ(connecting_.find(note), sender_.get());
}

}  // namespace
}  // namespace lyre::nccl_adapter
