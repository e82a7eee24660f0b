#include "machine/processors.h"

#include <charconv>

namespace lyre::machine {
namespace {

/// More than Linux has: a longer range is an error of the text.
constexpr uint32_t kProcessorsMax = 65536;

bool take_number(std::string_view& text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take_character(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

std::string folder_of(const Roots& roots, uint32_t number) {
  return roots.sys + "/devices/system/cpu/cpu" + std::to_string(number);
}

uint32_t core_of(const Roots& roots, uint32_t number) {
  const std::string siblings = folder_of(roots, number) + "/topology/thread_siblings_list";
  const std::vector<uint32_t> threads = numbers_of_list(first_line(siblings));
  return threads.empty() ? number : threads.front();
}

}  // namespace

std::vector<uint32_t> isolated_processors(const Roots& roots) {
  return numbers_of_list(first_line(roots.sys + "/devices/system/cpu/isolated"));
}

std::vector<uint32_t> numbers_of_list(std::string_view list) {
  std::vector<uint32_t> numbers;
  while (!list.empty()) {
    uint32_t first = 0;
    if (!take_number(list, first)) return {};
    uint32_t last = first;
    if (take_character(list, '-') && !take_number(list, last)) return {};
    if (last < first || last >= kProcessorsMax) return {};
    for (uint32_t number = first; number <= last; ++number) numbers.push_back(number);
    if (!list.empty() && !take_character(list, ',')) return {};
  }
  return numbers;
}

std::string list_of_numbers(std::span<const uint32_t> numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint32_t first = numbers[i];
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
    out += (out.empty() ? "" : ", ") + std::to_string(first);
    if (numbers[i] > first) out += "-" + std::to_string(numbers[i]);
  }
  return out;
}

/// The kernel links a processor to its node.
int node_of_processor(const Roots& roots, uint32_t number) {
  for (const std::string& name : entries(folder_of(roots, number))) {
    if (!name.starts_with("node")) continue;
    const std::vector<uint32_t> node = numbers_of_list(std::string_view(name).substr(4));
    if (node.size() == 1) return static_cast<int>(node.front());
  }
  return 0;
}

std::vector<Processor> processors(const Roots& roots, std::span<const uint32_t> allowed) {
  std::vector<Processor> out;
  for (const uint32_t number : allowed) {
    out.push_back({.number = number,
                   .node = node_of_processor(roots, number),
                   .core = core_of(roots, number)});
  }
  return out;
}

}  // namespace lyre::machine
