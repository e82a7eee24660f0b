#include "nccl_adapter/abi/setting_names.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace lyre::nccl_abi {
namespace {

using Lines = std::vector<std::string>;

Lines lines_for(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return unknown_settings(environment.data());
}

TEST(SettingNames, KnownSettingsAndOthersAreQuiet) {
  EXPECT_EQ(lines_for({}), Lines{});
  EXPECT_EQ(lines_for({"LYRE_SOCKET=/run/x", "PATH=/bin", "MY_LYRE_SOCKET=1", "LYRE_TEST_X=1"}),
            Lines{});
}

TEST(SettingNames, AMisspeltSettingIsNamedWithTheKnownOne) {
  EXPECT_EQ(lines_for({"LYRE_STREAM=4", "HOME=/"}),
            Lines{"LYRE_STREAM is not a setting of Lyre, and is ignored; is LYRE_STREAMS meant?"});
  EXPECT_EQ(lines_for({"LYRE_SOKET=/x"}),
            Lines{"LYRE_SOKET is not a setting of Lyre, and is ignored; is LYRE_SOCKET meant?"});
  EXPECT_EQ(lines_for({"LYRE_COMPLETELY_DIFFERENT=1"}),
            Lines{"LYRE_COMPLETELY_DIFFERENT is not a setting of Lyre, and is ignored"});
}

/// Every "LYRE_..." in quotes in the sources of what is installed.
std::set<std::string> settings_in_sources(const std::filesystem::path& root) {
  static const std::regex kName("\"(LYRE_[A-Z_]*[A-Z])\"");
  std::set<std::string> found;
  for (const char* folder : {"libclient", "nccl_adapter", "daemon", "stack", "tools"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cc") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator at(text.begin(), text.end(), kName), end; at != end; ++at) {
        found.insert((*at)[1]);
      }
    }
  }
  return found;
}

/// Every LYRE_... in what containers and jobs are started with.
std::set<std::string> settings_in_deployment(const std::filesystem::path& root) {
  static const std::regex kName("LYRE_[A-Z_]*[A-Z]");
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "deploy")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator at(text.begin(), text.end(), kName), end; at != end; ++at) {
      found.insert(at->str());
    }
  }
  return found;
}

TEST(SettingNames, EverySettingInTheSourcesIsKnown) {
  const char* root = std::getenv("LYRE_TEST_SOURCE_ROOT");
  ASSERT_NE(root, nullptr);
  std::set<std::string> found = settings_in_sources(root);
  EXPECT_TRUE(found.contains("LYRE_SOCKET"));
  const std::set<std::string> deployed = settings_in_deployment(root);
  EXPECT_TRUE(deployed.contains("LYRE_NIC"));
  found.insert(deployed.begin(), deployed.end());
  for (const std::string& name : found) {
    EXPECT_EQ(lines_for({(name + "=1").c_str()}), Lines{})
        << "add it to nccl_adapter/abi/setting_names.h";
  }
}

}  // namespace
}  // namespace lyre::nccl_abi
