#include "tools/lyre/doctor/pool_holders.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>

namespace lyre::tools {
namespace {

/// The name of a receive pool's memory: see io::dpdk::Memory.
constexpr const char* kPoolFile = "/memfd:lyre-rx";

/// Device and inode: the names of the pools of two daemons are the same.
using PoolId = std::string;

/// Where the process has hugepages. A line is "ADDRESS POLICY file=NAME huge ...".
std::set<std::string> huge_addresses(const std::string& numa_maps) {
  std::set<std::string> addresses;
  for (const std::string& line : machine::lines(numa_maps)) {
    if (line.find(kPoolFile) == std::string::npos) continue;
    const auto words = machine::words(line);
    if (std::ranges::find(words, "huge") != words.end()) addresses.insert(words[0]);
  }
  return addresses;
}

/// The pools in hugepages that a process has mapped; none: its maps cannot be read. A line is
/// "BEGIN-END RIGHTS OFFSET DEVICE INODE NAME".
std::optional<std::set<PoolId>> pools_of(const std::string& folder) {
  std::map<std::string, PoolId> mapped;
  std::ifstream file(folder + "/maps");
  if (!file.is_open()) return std::nullopt;
  for (std::string line; std::getline(file, line);) {
    if (line.find(kPoolFile) == std::string::npos) continue;
    const auto words = machine::words(line);
    if (words.size() > 5 && words[5].starts_with(kPoolFile)) {
      mapped[words[0].substr(0, words[0].find('-'))] = words[3] + " " + words[4];
    }
  }
  if (file.bad()) return std::nullopt;
  std::set<PoolId> pools;
  if (mapped.empty()) return pools;
  for (const std::string& address : huge_addresses(folder + "/numa_maps")) {
    if (const auto it = mapped.find(address); it != mapped.end()) pools.insert(it->second);
  }
  return pools;
}

/// By a signal or by a debugger. The name, in brackets before the state, may have any bytes.
bool is_stopped(const std::string& folder) {
  std::string stat;
  for (const std::string& line : machine::lines(folder + "/stat")) stat += line + "\n";
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size()) return false;
  return stat[end + 2] == 'T' || stat[end + 2] == 't';
}

bool is_number(const std::string& name) {
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<PoolHolder> pool_holders(const machine::Roots& roots) {
  std::map<int32_t, PoolHolder> all;
  std::map<PoolId, std::set<int32_t>> users;
  std::set<PoolId> served;
  for (const std::string& entry : machine::entries(roots.proc)) {
    if (!is_number(entry)) continue;
    const std::string folder = roots.proc + "/" + entry;
    PoolHolder holder{.pid = std::atoi(entry.c_str()),
                      .name = machine::first_line(folder + "/comm")};
    if (holder.name.empty()) continue;  // it has ended
    holder.is_daemon = holder.name.starts_with("lyred");
    const auto pools = pools_of(folder);
    if (!pools && holder.is_daemon) return {};
    if (!pools || pools->empty()) continue;
    if (holder.is_daemon) served.insert(pools->begin(), pools->end());
    if (!holder.is_daemon && !is_stopped(folder)) continue;
    for (const PoolId& pool : *pools) users[pool].insert(holder.pid);
    all.emplace(holder.pid, holder);
  }
  std::set<int32_t> found;
  for (const auto& [pool, pids] : users) {
    for (const int32_t pid : pids) {
      if (all.at(pid).is_daemon || !served.contains(pool)) found.insert(pid);
    }
  }
  std::vector<PoolHolder> out;
  for (const int32_t pid : found) out.push_back(all.at(pid));
  return out;
}

}  // namespace lyre::tools
