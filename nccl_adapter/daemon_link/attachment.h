#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/settings.h"

namespace lyre::nccl_adapter {

/// A line that tells which of `names`, as in LYRE_RAILS, are no ports of the daemon, and what is
/// allowed; empty: all are.
std::string wrong_rails(lyre_context* context, const std::vector<std::string>& names);

/// The attachment to a daemon, which may be lost and found again. The objects of a context must be
/// released before the context is closed.
/// Thread: under the instance's lock.
class Attachment {
 public:
  /// Fails: nullptr, a LYRE_E code in `failure`, the reason in lyre_last_error(). Blocks at most
  /// kStartPatienceMs.
  static std::unique_ptr<Attachment> open(const Settings& settings, int* failure);
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  /// nullptr while the daemon is lost.
  lyre_context* context() const { return context_; }
  /// The daemon's, of those that LYRE_RAILS names; as of the first attach, so that a device stays
  /// what it was.
  const std::vector<lyre_port>& ports() const { return ports_; }
  int workers() const { return workers_; }

  void lose(int64_t now_ns);
  /// It was found and is of no use: looked for on, since the first loss.
  void lose_again(std::string why);
  /// Looks for the daemon, now and then. True when it is back. Blocks at most kFindPatienceMs.
  bool find(int64_t now_ns);
  /// It was looked for as long as LYRE_RESUME_SECONDS allows.
  bool is_given_up(int64_t now_ns) const;
  /// Why it was not found when it was last looked for.
  const std::string& failure() const { return failure_; }

 private:
  Attachment(const Settings& settings, lyre_context* context);
  static int attach(const Settings& settings, uint64_t patience_ms, lyre_context** out);

  const Settings& settings_;
  lyre_context* context_;
  std::vector<lyre_port> ports_;
  int workers_;
  std::string failure_;
  int64_t lost_ns_ = 0;
  int64_t looked_ns_ = 0;
};

}  // namespace lyre::nccl_adapter
