#include "tests/adapter/logged.h"

#include <algorithm>

#include "tools/nccl_emulator/plugin_log.h"

namespace lyre::test {

std::vector<std::string> logged_warnings() {
  std::vector<std::string> warnings;
  for (const nccl_emulator::LogLine& line : nccl_emulator::logged_lines()) {
    if (line.level == nccl_abi::LogLevel::kWarn) warnings.push_back(line.text);
  }
  return warnings;
}

bool has_logged(const std::string& text) { return count_logged(text) > 0; }

size_t count_logged(const std::string& text) {
  const std::vector<std::string> warnings = logged_warnings();
  return static_cast<size_t>(
      std::count_if(warnings.begin(), warnings.end(),
                    [&](const std::string& line) { return line.find(text) != std::string::npos; }));
}

std::string logged_text() {
  std::string all = "logged:";
  for (const nccl_emulator::LogLine& line : nccl_emulator::logged_lines()) {
    all += "\n  " + line.text;
  }
  return all;
}

}  // namespace lyre::test
