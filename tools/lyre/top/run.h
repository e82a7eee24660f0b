#pragma once

#include "tools/lyre/options.h"

namespace lyre::tools {

struct TopOptions {
  double interval_s = 1;
};

/// `lyre top`: until key q, or until the daemon ends.
/// Fails: throws Failure, also without a terminal that can place text.
void run_top(const GlobalOptions& globals, const TopOptions& options);

}  // namespace lyre::tools
