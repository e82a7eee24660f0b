#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "daemon/control/control_server.h"
#include "tests/unit/daemon/control_fixture.h"

namespace lyre {
namespace {

class AdministratorsSocket : public ControlServerTest {};

// Each socket counts its own connections. Root of a container can take the uid of the daemon, and
// with it all connections of that uid at the socket of clients.
TEST_F(AdministratorsSocket, IsNotRefusedForConnectionsOfTheSameUidAtThatOfClients) {
  server_.reset();
  ControlOptions clients = options();
  clients.connections_per_uid_max = 2;
  server_.emplace(io_, mappings_, registry_, facts(), clients);
  ASSERT_TRUE(server_->open().ok());
  ControlOptions administrators = clients;
  administrators.socket_path = path_ + ".admin";
  administrators.serves_clients = false;
  ControlServer administration(io_, mappings_, registry_, facts(), administrators);
  ASSERT_TRUE(administration.open().ok());
  std::vector<RawClient> taken;
  for (int i = 0; i < 3; ++i) taken.emplace_back(path_);
  run();
  EXPECT_EQ(server_->counters().refused, 1u);
  RawClient looker(administrators.socket_path);
  run();
  EXPECT_EQ(administration.counters().refused, 0u);
  EXPECT_EQ(administration.connection_count(), 1u);
}

}  // namespace
}  // namespace lyre
