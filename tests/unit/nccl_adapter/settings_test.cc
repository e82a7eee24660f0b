#include "nccl_adapter/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/abi/setting_names.h"

namespace lyre::nccl_adapter {
namespace {

class RequiredDaemon : public ::testing::Test {
 protected:
  ~RequiredDaemon() override {
    for (const char* name : {"LYRE_REQUIRED", "LYRE_STREAMS", "NCCL_NET"}) ::unsetenv(name);
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

TEST_F(RequiredDaemon, IsWantedAlsoWhereNcclMayUseNoOtherNetwork) {
  for (const auto& [net, is_wanted] :
       {std::pair("Lyre", true), {"lyre", true}, {"Socket", false}, {"", false}}) {
    ::setenv("NCCL_NET", net, 1);
    Settings settings;
    EXPECT_TRUE(read_settings(&settings)) << net;
    EXPECT_EQ(settings.is_wanted, is_wanted) << net;
    EXPECT_FALSE(settings.is_required) << net;
  }
  ::setenv("LYRE_REQUIRED", "1", 1);
  Settings settings;
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_TRUE(settings.is_wanted);
}

// As NCCL reads the number.
TEST(NcclSettings, ThePluginIsKeptWhereItsUsersAreMoreThanTheCommunicators) {
  for (const char* value : {"1", "2", "0x1"}) EXPECT_TRUE(nccl_abi::keeps_plugin(value)) << value;
  for (const char* value : {"", "0", "00", "-1", "yes"}) {
    EXPECT_FALSE(nccl_abi::keeps_plugin(value)) << value;
  }
  EXPECT_FALSE(nccl_abi::keeps_plugin(nullptr));
}

TEST(Rails, ARailThatIsNamedTwiceIsOne) {
  ::setenv("LYRE_RAILS", "rail1,rail0,own,rail1", 1);
  Settings settings;
  EXPECT_TRUE(read_settings(&settings));
  ::unsetenv("LYRE_RAILS");
  EXPECT_EQ(settings.rails, (std::vector<std::string>{"rail1", "rail0"}));
}

class VerbsSetting : public ::testing::Test {
 protected:
  ~VerbsSetting() override {
    for (const std::string_view name : nccl_abi::kSettingNames) {
      if (name.starts_with("LYRE_VERBS")) ::unsetenv(std::string(name).c_str());
    }
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

TEST_F(VerbsSetting, KnowsTwoModesAndTakesTheFirst) {
  Settings settings;
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_EQ(settings.verbs_mode, 1);
  ::setenv("LYRE_VERBS_MODE", "2", 1);
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_EQ(settings.verbs_mode, 2);
  ::setenv("LYRE_VERBS_MODE", "3", 1);
  EXPECT_FALSE(read_settings(&settings));
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

TEST_F(VerbsSetting, NamesDevicesAndWhatTheirPacketsCarry) {
  Settings settings;
  ::setenv("LYRE_VERBS_DEVICES", "mlx5_0:1,mlx5_2", 1);
  ::setenv("LYRE_VERBS_GID_INDEX", "3", 1);
  ::setenv("LYRE_VERBS_TRAFFIC_CLASS", "106", 1);
  ::setenv("LYRE_VERBS_SERVICE_LEVEL", "3", 1);
  ::setenv("LYRE_VERBS_QUEUE_PAIRS", "4", 1);
  EXPECT_TRUE(read_settings(&settings));
  EXPECT_EQ(settings.verbs_devices, (std::vector<std::string>{"mlx5_0:1", "mlx5_2"}));
  EXPECT_EQ(settings.verbs_gid_index, 3);
  EXPECT_EQ(settings.verbs_traffic_class, 106);
  EXPECT_EQ(settings.verbs_service_level, 3);
  EXPECT_EQ(settings.verbs_queue_pairs, 4);
  ::setenv("LYRE_VERBS_QUEUE_PAIRS", "9", 1);
  EXPECT_FALSE(read_settings(&settings));
}

}  // namespace
}  // namespace lyre::nccl_adapter
