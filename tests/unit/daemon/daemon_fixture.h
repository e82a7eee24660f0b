#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "daemon/config/config.h"
#include "daemon/memory/mapping_opener.h"
#include "tests/support/deadline.h"
#include "tests/unit/daemon/sim_backend.h"

namespace lyre {

/// What a whole daemon of this process needs: a directory for its socket, a configuration, and
/// simulated ports.
class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    char name[] = "/tmp/lyre-daemon-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~DaemonTest() override { std::filesystem::remove_all(directory_); }

  std::string socket() const { return directory_ + "/lyred.sock"; }

  Config config(const std::string& device = "sim0") const {
    auto config = parse_config("[daemon]\nsocket = \"" + socket() +
                                   "\"\nsocket_group = \"\"\n[memory]\nrx_slots = 1024\n"
                                   "[tcp]\nconnections_max = 64\n[[port]]\nname = \"rail0\"\n"
                                   "device = \"" +
                                   device + "\"\naddress = \"10.9.0.1/24\"\n",
                               "f.toml");
    EXPECT_TRUE(config.ok()) << config.error().text;
    config->cores = {static_cast<uint32_t>(::sched_getcpu())};
    return *config;
  }

  /// Runs what waits in `io_` until `is_done`, about a minute at most.
  template <typename Done>
  bool run_until(Done is_done) {
    const test::Deadline deadline;
    while (!is_done() && !deadline.is_over()) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(5));
    }
    return is_done();
  }

  std::string directory_;
  boost::asio::io_context io_;
  MappingOpener mappings_{io_, {}};
  SimBackend::Ports states_;
};

}  // namespace lyre
