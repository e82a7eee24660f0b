#pragma once

#include <cstdint>
#include <span>

#include "tools/lyre/perf/protocol.h"

struct evp_md_ctx_st;

namespace lyre::perf {

/// SHA-256 of a stream of bytes.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::span<const uint8_t> bytes);
  /// The hash of everything added. REQUIRES: called once, at the end.
  Hash finish();

 private:
  evp_md_ctx_st* state_;
};

}  // namespace lyre::perf
