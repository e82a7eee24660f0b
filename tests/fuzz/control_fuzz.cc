#include <cstdlib>
#include <cstring>

#include "daemon/protocol/control_message.h"

// Anything that a client writes to the control socket is refused with a reason, or is a request
// whose fields are all valid.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre;
  auto request = check_request({data, size});
  if (!request.ok()) {
    if (request.error().text.empty()) std::abort();
    return 0;
  }
  if (const auto* attach = std::get_if<channel::AttachRequest>(&request.value())) {
    if (std::memchr(attach->label, 0, sizeof attach->label) == nullptr) std::abort();
    if (attach->abi_versions.max == 0 && attach->header.magic != channel::kControlMagic)
      std::abort();
  }
  return 0;
}
