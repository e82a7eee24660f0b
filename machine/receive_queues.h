#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lyre::machine {

/// How an interface of the kernel spreads what it receives over its queues.
struct ReceiveQueues {
  uint32_t combined = 0;  ///< queues that receive and send
  uint32_t receive_only = 0;
  std::vector<uint32_t> rss_table{};  ///< the queue of each entry; empty: its driver tells none
  uint32_t flow_rules = 0;            ///< of `ethtool -N`
};

/// By ethtool's requests. None: no such interface, or its driver does not tell its queues.
std::optional<ReceiveQueues> receive_queues(const std::string& interface);

/// The queues that get packets beside `count` ones from `first` on, in ascending order. None where
/// there are flow rules, because these may steer what is wanted.
std::vector<uint32_t> queues_beside(const ReceiveQueues& queues, uint32_t first, uint32_t count);

}  // namespace lyre::machine
