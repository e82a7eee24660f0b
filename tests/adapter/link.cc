#include "tests/adapter/link.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "nccl_adapter/abi/nccl_settings.h"
#include "tests/support/deadline.h"

namespace lyre::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string lyred_path() {
  const char* path = std::getenv("LYRE_TEST_LYRED");
  return path != nullptr ? path : "lyred";
}

/// The number of workers of each daemon.
int workers() {
  const char* count = std::getenv("LYRE_TEST_WORKERS");
  return count != nullptr ? std::atoi(count) : 1;
}

/// The daemons that the tests share. They stop while a failure still counts.
class SharedDaemons : public ::testing::Environment {
 public:
  DaemonPair& pair() {
    if (pair_ == nullptr) pair_ = std::make_unique<DaemonPair>(lyred_path(), "", workers());
    return *pair_;
  }
  void TearDown() override { pair_.reset(); }

 private:
  std::unique_ptr<DaemonPair> pair_;
};

auto* const shared_daemons =
    static_cast<SharedDaemons*>(::testing::AddGlobalTestEnvironment(new SharedDaemons));

}  // namespace

DaemonPair& daemons() { return shared_daemons->pair(); }

std::unique_ptr<NetPlugin> load_tested_plugin(int abi) {
  const char* path = std::getenv("LYRE_TEST_PLUGIN");
  if (path == nullptr) throw std::runtime_error("LYRE_TEST_PLUGIN is not set");
  ::setenv(nccl_abi::kPluginUsersSetting, "1", 0);
  return nccl_emulator::load_net_plugin(path, abi);
}

std::unique_ptr<DaemonPair> own_daemons(const std::string& more_toml) {
  return std::make_unique<DaemonPair>(lyred_path(), "user_timeout_ms = 60000\n" + more_toml,
                                      workers());
}

bool until(const std::function<bool()>& step, int seconds) {
  const Deadline deadline{std::chrono::seconds(seconds)};
  while (!step()) {
    if (deadline.is_over()) return false;
    // Both ranks and both daemons may share two cores.
    ::sched_yield();
  }
  return true;
}

Link::Link(Rank& rank, int abi, Unconnected, DaemonPair& pair) : rank_(rank) {
  ::setenv("LYRE_SOCKET", pair.socket(rank.index()).c_str(), 1);
  plugin_ = load_tested_plugin(abi);
  require(plugin_->init(kCommId), "init");
}

Link::~Link() {
  if (plugin_ != nullptr) plugin_->unload();
}

Link::Link(Rank& rank, int abi, DaemonPair& pair) : Link(rank, abi, Unconnected{}, pair) {
  exchange_handle();
  connect();
}

void Link::require(Result result, const char* what) {
  if (result == Result::kSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + nccl_abi::result_name(result) + ", " +
                           logged_text());
}

void Link::exchange_handle() {
  if (rank_.index() == 1) {
    require(plugin_->listen(0, handle_.data(), &listen_comm_), "listen");
    rank_.send(handle_.data(), handle_.size());
  } else if (!rank_.receive(handle_.data(), handle_.size())) {
    throw std::runtime_error("the other rank has ended");
  }
}

void Link::connect() {
  const bool is_connected = until([&] {
    if (rank_.index() == 0) {
      require(plugin_->connect(0, handle_.data(), &comm_), "connect");
    } else {
      require(plugin_->accept(listen_comm_, &comm_), "accept");
    }
    return comm_ != nullptr;
  });
  if (!is_connected) throw std::runtime_error("no connection in time, " + logged_text());
}

void* Link::isend(const void* data, size_t bytes, void* mhandle) {
  // NCCL's declaration has no const; a plugin only reads what it sends.
  const nccl_emulator::Message message{
      .data = const_cast<void*>(data), .bytes = bytes, .mhandle = mhandle};
  void* request = nullptr;
  until([&] {
    require(plugin_->isend(comm_, message, &request), "isend");
    return request != nullptr;
  });
  return request;
}

void* Link::irecv(void* data, size_t bytes) {
  void* request = nullptr;
  until([&] {
    require(plugin_->irecv(comm_, {data, bytes}, &request), "irecv");
    return request != nullptr;
  });
  return request;
}

bool Link::is_done(void* request, int* bytes) {
  int done = 0;
  int size = -1;
  require(plugin_->test(request, &done, &size), "test");
  if (bytes != nullptr) *bytes = size;
  return done != 0;
}

int Link::finish(void* request) {
  int bytes = -1;
  // On a busy machine a daemon may need some time to start again.
  if (!until([&] { return is_done(request, &bytes); }, 60)) {
    throw std::runtime_error("a request did not finish in time, " + logged_text());
  }
  return bytes;
}

Result Link::finish_with_error(void* request, int seconds) {
  Result result = Result::kSuccess;
  int done = 0;
  until(
      [&] {
        result = plugin_->test(request, &done, nullptr);
        return result != Result::kSuccess || done != 0;
      },
      seconds);
  return result;
}

void Link::keep_testing(void* request, int milliseconds) {
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (Clock::now() < end) {
    if (is_done(request)) throw std::runtime_error("a request was done too early");
    ::sched_yield();
  }
}

void Link::close() {
  if (comm_ != nullptr) {
    require(rank_.index() == 0 ? plugin_->close_send(comm_) : plugin_->close_recv(comm_), "close");
  }
  if (listen_comm_ != nullptr) require(plugin_->close_listen(listen_comm_), "closeListen");
  comm_ = nullptr;
  listen_comm_ = nullptr;
  require(plugin_->finalize(), "finalize");
}

size_t count_entries(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::vector<uint8_t> pattern(uint64_t seed, size_t bytes) {
  std::vector<uint8_t> data(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint8_t& byte : data) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return data;
}

}  // namespace lyre::test
