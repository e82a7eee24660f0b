#pragma once

#include <cstdint>
#include <span>

#include "stack/ip/route_table.h"
#include "tests/conformance/stack_options.h"

namespace lyre::conformance {

/// The addresses of the host under test: one network of each family, and a gateway for the rest.
class OwnAddresses {
 public:
  explicit OwnAddresses(const StackOptions& options);
  const ip::RouteTable& routes() const { return routes_; }
  /// Makes the destination of `packet` an own address, if it can be one: packetdrill does not
  /// report this host's addresses.
  void learn_from(std::span<const uint8_t> packet);

 private:
  ip::RouteTable routes_;
};

}  // namespace lyre::conformance
