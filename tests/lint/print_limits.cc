#include <cstdio>
#include <string>

#include "tests/lint/limits_table.h"

// Prints the table of limits as Markdown, for limits.py.
int main() {
  std::puts("| limit | default | key | at the limit |\n|---|---|---|---|");
  for (const lyre::Limit& limit : lyre::limits()) {
    const std::string key = limit.key.empty() ? "" : "`" + std::string(limit.key) + "`";
    std::printf("| %s | %s | %s | %s |\n", std::string(limit.what).c_str(), limit.value.c_str(),
                key.c_str(), std::string(limit.at_limit).c_str());
  }
  return 0;
}
