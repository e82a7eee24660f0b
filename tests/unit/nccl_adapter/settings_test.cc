#include "nccl_adapter/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

namespace lyre::nccl_adapter {
namespace {

class RequiredDaemon : public ::testing::Test {
 protected:
  ~RequiredDaemon() override {
    ::unsetenv("LYRE_REQUIRED");
    ::unsetenv("LYRE_STREAMS");
  }
};

TEST_F(RequiredDaemon, IsAskedForByAnythingButZero) {
  Settings settings;
  for (const char* text : {"1", "yes", "true", "no", "2"}) {
    ::setenv("LYRE_REQUIRED", text, 1);
    EXPECT_TRUE(read_settings(&settings)) << text;
    EXPECT_TRUE(settings.is_required) << text;
  }
  for (const char* text : {"", "0"}) {
    ::setenv("LYRE_REQUIRED", text, 1);
    EXPECT_TRUE(read_settings(&settings)) << text;
    EXPECT_FALSE(settings.is_required) << text;
  }
  ::unsetenv("LYRE_REQUIRED");
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_FALSE(settings.is_required);
}

TEST_F(RequiredDaemon, IsKnownAlsoWhenAnotherSettingIsWrong) {
  ::setenv("LYRE_REQUIRED", "1", 1);
  ::setenv("LYRE_STREAMS", "many", 1);
  Settings settings;
  EXPECT_FALSE(read_settings(&settings));
  EXPECT_TRUE(settings.is_required);
}

class VerbsSetting : public ::testing::Test {
 protected:
  ~VerbsSetting() override {
    ::unsetenv("LYRE_VERBS");
    ::unsetenv("LYRE_VERBS_TIMEOUT");
  }
};

TEST_F(VerbsSetting, IsOneOfThreeWordsAndOffByDefault) {
  Settings settings;
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_EQ(settings.verbs, VerbsUse::kOff);
  for (const auto& [text, use] : {std::pair("only", VerbsUse::kOnly),
                                  {"off", VerbsUse::kOff},
                                  {"auto", VerbsUse::kAuto},
                                  {"", VerbsUse::kOff}}) {
    ::setenv("LYRE_VERBS", text, 1);
    EXPECT_TRUE(read_settings(&settings)) << text;
    EXPECT_EQ(settings.verbs, use) << text;
  }
  for (const char* text : {"on", "0", "Only", "only "}) {
    ::setenv("LYRE_VERBS", text, 1);
    EXPECT_FALSE(read_settings(&settings)) << text;
  }
}

TEST_F(VerbsSetting, TakesTheTimeoutsThatADeviceTakes) {
  Settings settings;
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_EQ(settings.verbs_timeout, kVerbsTimeout);
  ::setenv("LYRE_VERBS_TIMEOUT", "20", 1);
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_EQ(settings.verbs_timeout, 20);
  for (const char* text : {"0", "32", "4s"}) {
    ::setenv("LYRE_VERBS_TIMEOUT", text, 1);
    EXPECT_FALSE(read_settings(&settings)) << text;
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
