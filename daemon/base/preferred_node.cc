#include "daemon/base/preferred_node.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>

namespace lyre {
namespace {

constexpr unsigned kNodesMax = 1024;  // Linux: MAX_NUMNODES
constexpr unsigned kBits = sizeof(unsigned long) * CHAR_BIT;

/// glibc has no function for it, only libnuma.
long set_policy(int mode, const unsigned long* nodes) {
  return ::syscall(SYS_set_mempolicy, mode, nodes, nodes == nullptr ? 0UL : kNodesMax + 1UL);
}

}  // namespace

PreferredNode::PreferredNode(int node) {
  if (node < 0 || node >= static_cast<int>(kNodesMax)) return;
  std::array<unsigned long, kNodesMax / kBits + 1> nodes = {};
  const auto bit = static_cast<unsigned>(node);
  nodes[bit / kBits] = 1UL << (bit % kBits);
  is_set_ = set_policy(MPOL_PREFERRED, nodes.data()) == 0;
}

PreferredNode::~PreferredNode() {
  if (is_set_) set_policy(MPOL_DEFAULT, nullptr);
}

}  // namespace lyre
