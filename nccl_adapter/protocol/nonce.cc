#include "nccl_adapter/protocol/nonce.h"

#include <sys/random.h>

namespace lyre::nccl_adapter {

Nonce make_nonce() {
  Nonce nonce{};
  size_t filled = 0;
  while (filled < nonce.size()) {
    const ssize_t n = ::getrandom(nonce.data() + filled, nonce.size() - filled, 0);
    if (n > 0) filled += static_cast<size_t>(n);
  }
  return nonce;
}

}  // namespace lyre::nccl_adapter
