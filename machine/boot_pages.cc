#include "machine/boot_pages.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "machine/memory.h"

namespace lyre::machine {
namespace {

/// A size as the kernel's command line has it: "2M", "1G", "2097152".
uint64_t kib_of(const std::string& size) {
  char* unit = nullptr;
  const uint64_t value = std::strtoull(size.c_str(), &unit, 0);
  switch (*unit) {
    case 'k':
    case 'K':
      return value;
    case 'm':
    case 'M':
      return value << 10;
    case 'g':
    case 'G':
      return value << 20;
    default:
      return value >> 10;
  }
}

/// "192", or by NUMA node "0:96,1:96".
uint64_t sum_of_nodes(const std::string& value) {
  uint64_t sum = 0;
  for (size_t at = 0; at < value.size();) {
    const size_t end = std::min(value.find(',', at), value.size());
    const std::string part = value.substr(at, end - at);
    sum += std::strtoull(part.c_str() + part.find(':') + 1, nullptr, 10);
    at = end + 1;
  }
  return sum;
}

/// hugepages=N counts pages of the size that was named last, or else of the default size.
std::optional<uint64_t> pages_of_command_line(const std::string& line, uint64_t default_kib) {
  constexpr std::string_view kPages = "hugepages=";
  constexpr std::string_view kSizes[] = {"hugepagesz=", "default_hugepagesz="};
  uint64_t page_kib = default_kib;
  std::optional<uint64_t> pages;
  for (const std::string& word : words(line)) {
    for (const std::string_view name : kSizes) {
      if (word.starts_with(name)) page_kib = kib_of(word.substr(name.size()));
    }
    if (!word.starts_with(kPages) || page_kib != kPacketPageKib) continue;
    pages = sum_of_nodes(word.substr(kPages.size()));
  }
  return pages;
}

/// The files that systemd reads, by name: in this order it reads them.
std::map<std::string, std::string> settings_files(const std::vector<std::string>& folders) {
  std::map<std::string, std::string> files;
  for (const std::string& folder : folders) {
    for (const std::string& name : entries(folder)) {
      if (name.ends_with(".conf")) files.try_emplace(name, folder + "/" + name);
    }
  }
  return files;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// "vm.nr_hugepages = 192", also with '/' for '.', and '-' before it: errors are ignored.
std::optional<uint64_t> pages_of_sysctl_line(const std::string& line) {
  const size_t equals = line.find('=');
  if (equals == std::string::npos) return std::nullopt;
  std::string name = trimmed(line.substr(0, equals));
  if (name.starts_with('-')) name.erase(0, 1);
  if (name != "vm.nr_hugepages" && name != "vm/nr_hugepages") return std::nullopt;
  return std::strtoull(line.c_str() + equals + 1, nullptr, 10);
}

/// "w /sys/... - - - - 192", with modifiers behind the 'w'.
std::optional<uint64_t> pages_of_tmpfiles_line(const std::string& line) {
  constexpr size_t kPath = 1;
  constexpr size_t kArgument = 6;
  const std::vector<std::string> fields = words(line);
  if (fields.size() <= kArgument || !fields[0].starts_with('w')) return std::nullopt;
  if (fields[kPath] != kPacketPagesFile) return std::nullopt;
  return std::strtoull(fields[kArgument].c_str(), nullptr, 10);
}

/// The last one counts.
std::optional<BootPages> pages_in_sysctl(const BootFolders& folders) {
  std::optional<BootPages> found;
  for (const auto& [name, file] : settings_files(folders.sysctl)) {
    if (const auto pages = pages_of_sysctl(file)) found = {*pages, BootSource::kSysctl, file};
  }
  return found;
}

/// The first one counts: systemd-tmpfiles ignores a second line for a path.
std::optional<BootPages> pages_in_tmpfiles(const BootFolders& folders) {
  for (const auto& [name, file] : settings_files(folders.tmpfiles)) {
    const auto pages = pages_of_tmpfiles(file);
    if (pages) return BootPages{*pages, BootSource::kTmpfiles, file};
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> pages_of_sysctl(const std::string& file) {
  std::optional<uint64_t> found;
  for (const std::string& line : lines(file)) {
    if (const auto pages = pages_of_sysctl_line(line)) found = pages;
  }
  return found;
}

std::optional<uint64_t> pages_of_tmpfiles(const std::string& file) {
  for (const std::string& line : lines(file)) {
    if (const auto pages = pages_of_tmpfiles_line(line)) return pages;
  }
  return std::nullopt;
}

std::optional<BootPages> pages_at_boot(const Roots& roots, const BootFolders& folders) {
  const uint64_t default_kib = default_pool_kib(roots);
  if (const auto found = pages_in_tmpfiles(folders)) return found;
  if (default_kib == kPacketPageKib) {
    if (const auto found = pages_in_sysctl(folders)) return found;
  }
  const auto pages = pages_of_command_line(first_line(roots.proc + "/cmdline"), default_kib);
  if (!pages) return std::nullopt;
  return BootPages{*pages, BootSource::kCommandLine, ""};
}

}  // namespace lyre::machine
