#include <gtest/gtest.h>

#include <string>

#include "libclient/include/lyre/lyre.h"
#include "tests/unit/libclient/fake_daemon.h"

/// Daemons that are older and newer than the library: their version numbers are varied around what
/// this library speaks.
namespace lyre::client {
namespace {

using channel::VersionRange;

/// What an attach to a daemon with this answer returns.
int code_of(VersionRange control, uint32_t abi) {
  FakeDaemonOptions settings;
  settings.distort = [=](channel::AttachReply& reply, channel::ContextHeader& header) {
    reply.header.versions = control;
    header.abi_version = abi;
  };
  FakeDaemon daemon(settings);
  lyre_options options{.struct_bytes = sizeof options};
  options.socket_path = daemon.socket_path();
  lyre_context* context = nullptr;
  const int code = lyre_context_open(&options, &context);
  if (code == 0) lyre_context_close(context);
  return code;
}

constexpr VersionRange kOwn = channel::kControlVersions;
constexpr auto kBefore = static_cast<uint16_t>(kOwn.min - 1);
constexpr auto kAfter = static_cast<uint16_t>(kOwn.max + 1);

TEST(VersionSkew, ACommonControlVersionIsEnough) {
  for (const VersionRange daemon :
       {kOwn, VersionRange{kBefore, kOwn.min}, VersionRange{kOwn.max, kAfter},
        VersionRange{kBefore, kAfter}}) {
    EXPECT_EQ(0, code_of(daemon, channel::kAbiVersions.max)) << channel::range_text(daemon).text;
  }
}

TEST(VersionSkew, TheLineNamesTheSideToUpgrade) {
  EXPECT_EQ(LYRE_E_VERSION, code_of({1, kBefore}, channel::kAbiVersions.max));
  EXPECT_EQ("the daemon speaks control version 1 to " + std::to_string(kBefore) +
                ", this program's Lyre " + channel::range_text(kOwn).text + ": upgrade the daemon",
            lyre_last_error());
  EXPECT_EQ(LYRE_E_VERSION, code_of({kAfter, kAfter}, channel::kAbiVersions.max));
  EXPECT_EQ("the daemon speaks control version " + std::to_string(kAfter) +
                ", this program's Lyre " + channel::range_text(kOwn).text +
                ": upgrade this program's Lyre",
            lyre_last_error());
}

TEST(VersionSkew, TheDaemonChoosesAVersionThatWasOffered) {
  const VersionRange own = channel::kAbiVersions;
  for (uint32_t version = own.min; version <= own.max; ++version) {
    EXPECT_EQ(0, code_of(kOwn, version));
  }
  EXPECT_EQ(LYRE_E_VERSION, code_of(kOwn, own.min - 1u));
  EXPECT_EQ(LYRE_E_VERSION, code_of(kOwn, own.max + 1u));
  EXPECT_EQ("the daemon chose channel version " + std::to_string(own.max + 1) +
                ", this program's Lyre has " + channel::range_text(own).text,
            lyre_last_error());
}

}  // namespace
}  // namespace lyre::client
