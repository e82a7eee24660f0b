#include "stack/tcp/state.h"

#include <array>
#include <cstddef>

namespace lyre::tcp {

const char* state_name(State state) {
  static constexpr std::array<const char*, kStateCount> kNames = {
      "CLOSED",     "SYN-SENT",   "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1",
      "FIN-WAIT-2", "CLOSE-WAIT", "CLOSING",      "LAST-ACK",    "TIME-WAIT"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace lyre::tcp
