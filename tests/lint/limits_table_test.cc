#include "tests/lint/limits_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "daemon/config/config_keys.h"

namespace lyre {
namespace {

TEST(LimitsTable, HaveAllKeysThatLimitClients) {
  const std::vector<Limit> all = limits();
  for (const Key& key : config_keys()) {
    const bool limits_clients = key.section == "clients" || key.section == "domain";
    if (!limits_clients || !key.name.ends_with("_max")) continue;
    const std::string name = std::string(key.section) + "." + std::string(key.name);
    EXPECT_EQ(1, std::count_if(all.begin(), all.end(),
                               [&](const Limit& limit) { return limit.key == name; }))
        << name;
  }
}

TEST(LimitsTable, SayWhatHappens) {
  for (const Limit& limit : limits()) {
    EXPECT_FALSE(limit.value.empty()) << limit.what;
    EXPECT_FALSE(limit.at_limit.empty()) << limit.what;
  }
}

}  // namespace
}  // namespace lyre
