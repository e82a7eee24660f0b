#include "tools/lyre/doctor/pool_holders.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

namespace lyre::tools {
namespace {

/// The name of a receive pool's memory: see io::dpdk::Memory.
constexpr const char* kPoolFile = "/memfd:lyre-rx";

/// Device and inode: the names of the pools of two daemons are the same.
using PoolId = std::string;

/// The pools that a process has mapped. A line is "ADDRESSES RIGHTS OFFSET DEVICE INODE NAME".
std::set<PoolId> pools_in(const std::string& maps) {
  std::set<PoolId> pools;
  std::ifstream file(maps);
  for (std::string line; std::getline(file, line);) {
    if (line.find(kPoolFile) == std::string::npos) continue;
    const auto words = machine::words(line);
    if (words.size() > 5 && words[5].starts_with(kPoolFile)) {
      pools.insert(words[3] + " " + words[4]);
    }
  }
  return pools;
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
    const auto pools = pools_in(folder + "/maps");
    if (pools.empty()) continue;
    PoolHolder holder{.pid = std::atoi(entry.c_str()),
                      .name = machine::first_line(folder + "/comm")};
    holder.is_daemon = holder.name.starts_with("lyred");
    for (const PoolId& pool : pools) users[pool].insert(holder.pid);
    if (holder.is_daemon) served.insert(pools.begin(), pools.end());
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
