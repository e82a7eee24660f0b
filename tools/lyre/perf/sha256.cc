#include "tools/lyre/perf/sha256.h"

#include <openssl/evp.h>

#include "tools/lyre/failure.h"

namespace lyre::perf {

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  if (state_ == nullptr || EVP_DigestInit_ex(state_, EVP_sha256(), nullptr) != 1) {
    throw tools::Failure(tools::kExitFailure, "SHA-256 is not available");
  }
}

Sha256::~Sha256() { EVP_MD_CTX_free(state_); }

void Sha256::add(std::span<const uint8_t> bytes) {
  EVP_DigestUpdate(state_, bytes.data(), bytes.size());
}

Hash Sha256::finish() {
  Hash out{};
  EVP_DigestFinal_ex(state_, out.data(), nullptr);
  return out;
}

}  // namespace lyre::perf
