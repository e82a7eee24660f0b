#pragma once

#include <algorithm>

#include "nccl_adapter/transport/rails.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {

/// Two hosts, and sessions between them: connect() gives the end on `here()`, far_ is the other.
class ConnectedHosts : public TwoHosts {
 protected:
  explicit ConnectedHosts(const adapter_sim::NetworkSettings& settings = {.hosts = 2, .rails = 2})
      : TwoHosts(settings) {
    const lyre_addr any{};
    EXPECT_EQ(lyre_listen(there().context(), &any, 8, &listener_), 0);
    there().on_listener = [this] {
      lyre_session* session = nullptr;
      while (lyre_accept(listener_, &session) == 0) far_ = Stream(session);
    };
  }
  ~ConnectedHosts() override {
    far_.abort();
    lyre_close_listener(listener_);
  }

  Stream connect() {
    lyre_addr bound{};
    lyre_listener_addr(listener_, &bound);
    lyre_addr local{};
    lyre_addr remote{};
    const Address from = address_of(here().ports()[0]);
    const Address to = address_of(there().ports()[0]);
    std::copy(from.begin(), from.end(), std::begin(local.address));
    std::copy(to.begin(), to.end(), std::begin(remote.address));
    remote.port = bound.port;
    lyre_session* session = nullptr;
    while (lyre_connect(here().context(), &local, &remote, &session) == LYRE_E_AGAIN) pass(kMs);
    Stream stream(session);
    EXPECT_TRUE(until([&] { return stream.state() == LYRE_OPEN && far_.is_open(); }));
    return stream;
  }

  Stream far_;
  lyre_listener* listener_ = nullptr;
};

}  // namespace lyre::nccl_adapter
