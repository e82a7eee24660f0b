#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"
#include "tests/adapter/logged.h"
#include "tests/adapter/ranks.h"
#include "tests/support/daemon_pair.h"
#include "tools/nccl_emulator/net_plugin.h"

namespace lyre::test {

using nccl_abi::Result;
using nccl_emulator::HandleBuffer;
using nccl_emulator::NetPlugin;
using nccl_emulator::NetProperties;

inline constexpr uint64_t kCommId = 0x1234;

/// The plugin of $LYRE_TEST_PLUGIN. NCCL_NET_PLUGIN_REF_COUNT is as docs/user/nccl.md says, unless
/// the test has set it. Fails: throws std::runtime_error.
std::unique_ptr<NetPlugin> load_tested_plugin(int abi);

/// The daemons that all tests of this program share. The first call starts them.
DaemonPair& daemons();
/// A pair of daemons for one test, which may kill them. Their user timeout is a minute, so it does
/// not end a connection before the plugin does.
/// `more_toml` is added to their configurations.
std::unique_ptr<DaemonPair> own_daemons(const std::string& more_toml = "");

/// Calls `step` until it returns true. Fails: returns false after `seconds`.
bool until(const std::function<bool()>& step, int seconds = 60);

/// One rank's end of a connection from rank 0, which sends, to rank 1, which receives.
/// Fails: methods throw std::runtime_error with what the plugin logged.
class Link {
 public:
  /// Loads the plugin, attaches to the rank's own daemon, and connects.
  Link(Rank& rank, int abi, DaemonPair& pair = daemons());
  /// Only attaches. The test calls connect() and the rest.
  struct Unconnected {};
  Link(Rank& rank, int abi, Unconnected, DaemonPair& pair = daemons());

  /// Unloads the plugin.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void connect();
  /// Rank 1 listens and sends the handle to rank 0, which receives it.
  void exchange_handle();

  NetPlugin& plugin() { return *plugin_; }
  void* comm() const { return comm_; }
  void* listen_comm() const { return listen_comm_; }
  HandleBuffer& handle() { return handle_; }
  const HandleBuffer& handle() const { return handle_; }

  /// Posts a request, and repeats the call while the plugin returns none.
  void* isend(const void* data, size_t bytes, void* mhandle = nullptr);
  void* irecv(void* data, size_t bytes);
  /// Tests until the request is done. Returns the size that test() reported.
  int finish(void* request);
  /// Tests once. Fails: throws the plugin's error.
  bool is_done(void* request, int* bytes = nullptr);
  /// Tests until the request fails. Returns kSuccess when it is done instead, or does not fail in
  /// time.
  Result finish_with_error(void* request, int seconds = 40);
  /// Tests a request that must not be done for this time.
  void keep_testing(void* request, int milliseconds);

  void close();

 private:
  void require(Result result, const char* what);

  Rank& rank_;
  std::unique_ptr<NetPlugin> plugin_;
  HandleBuffer handle_{};
  void* listen_comm_ = nullptr;
  void* comm_ = nullptr;
};

// Before v11 the plugin is not told when its last communicator ends.
inline bool has_finalize(int abi) { return abi >= 11; }
inline constexpr const char* kOneContext = "does not apply: all communicators share one context";

size_t count_entries(const char* folder);

/// Tests of each version of the ABI, with two daemons.
class EachAbi : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { daemons(); }
};
inline auto all_abis() { return ::testing::Values(8, 9, 10, 11, 12); }
inline std::string name_of_abi(const ::testing::TestParamInfo<int>& instance) {
  return "v" + std::to_string(instance.param);
}

/// Bytes that depend on `seed` and on their position.
std::vector<uint8_t> pattern(uint64_t seed, size_t bytes);

}  // namespace lyre::test
