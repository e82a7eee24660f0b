#pragma once

namespace lyre {

/// While it lives, memory that this thread touches first is taken from a NUMA node, as long as that
/// has some. Without such a node, or on a kernel without NUMA, it does nothing.
class PreferredNode {
 public:
  /// `node` < 0: any.
  explicit PreferredNode(int node);
  ~PreferredNode();
  PreferredNode(const PreferredNode&) = delete;
  PreferredNode& operator=(const PreferredNode&) = delete;

 private:
  bool is_set_ = false;
};

}  // namespace lyre
