#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/hub.h"
#include "tools/lyre/allreduce/job_json.h"

namespace lyre::allreduce {
namespace {

constexpr const char* kEscapes = "\x1b]0;owned\x07\x1b[2J";

std::string free_address() {
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), bytes);
  ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

bool has_control_characters(const std::string& text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' '; });
}

/// A hub whose two ranks are both those of another machine's launcher: no process is started.
class HubTest : public testing::Test {
 protected:
  HubTest() {
    options_.ranks = 2;
    options_.timeout_s = 60;
    options_.listen = free_address();
  }

  /// The other launcher joins, does `act` once it has a job, and reports that its ranks have ended.
  std::thread join(const std::function<void(int)>& act) const {
    return std::thread([address = options_.listen, act] {
      const UniqueFd hub = connect_tcp(address, std::chrono::seconds(60), is_interrupted);
      const std::vector<std::string> hosts{std::string(kEscapes) + "host"};
      send_frame(hub.get(), {FrameType::kJoin, 0, {{"local_ranks", 2}, {"hosts", hosts}}});
      FrameReader reader;
      while (!reader.next() && reader.read_some(hub.get())) {  // until its ranks have a job
      }
      act(hub.get());
      for (uint16_t rank = 0; rank < 2; ++rank) {
        send_frame(hub.get(), {FrameType::kExited, rank, nullptr});
      }
      while (reader.read_some(hub.get())) {
      }
    });
  }

  /// REQUIRES: the other launcher reports an error.
  tools::Failure failure_after(const RankError& error) const {
    std::thread other = join([&error](int hub) { send_frame(hub, {FrameType::kError, 0, error}); });
    tools::Failure failure(0, "");
    {
      Hub hub(options_, Machine{});
      for (const std::string& host : hub.hosts_by_rank()) {
        EXPECT_FALSE(has_control_characters(host)) << host;
      }
      try {
        hub.run(Job{}, [](const nlohmann::json&) {});
      } catch (const tools::Failure& thrown) {
        failure = thrown;
      }
    }
    other.join();
    return failure;
  }

  Options options_;
};

// Such a number ended the wait for the others.
TEST_F(HubTest, AJoinWithMoreRanksThanAJobMayHaveIsRefused) {
  std::thread others([this] {
    const UniqueFd first = connect_tcp(options_.listen, std::chrono::seconds(60), is_interrupted);
    const std::vector<std::string> hosts{"host"};
    send_frame(first.get(),
               {FrameType::kJoin, 0, {{"local_ranks", kRanksMax + 1}, {"hosts", hosts}}});
    EXPECT_FALSE(FrameReader().read_some(first.get())) << "the hub closes it";
    join([](int) {}).join();
  });
  EXPECT_EQ(Hub(options_, Machine{}).hosts_by_rank().size(), 2u);
  others.join();
}

// Another machine's launcher ended the command with status 0 and wrote to its terminal.
TEST_F(HubTest, AJoinedLauncherDoesNotDecideTheStatus) {
  for (const int exit_code : {0, -1, 256, 300}) {
    const auto failure = failure_after({exit_code, std::string(kEscapes) + "gone"});
    EXPECT_EQ(failure.exit_code(), tools::kExitFailure) << exit_code;
    EXPECT_FALSE(has_control_characters(failure.what())) << failure.what();
    EXPECT_NE(std::string(failure.what()).find("gone"), std::string::npos) << failure.what();
  }
}

TEST_F(HubTest, AStatusOfTheCommandIsKept) {
  EXPECT_EQ(failure_after({tools::kExitNoDaemon, "no daemon"}).exit_code(), tools::kExitNoDaemon);
}

TEST_F(HubTest, NamesInResultsOfAnotherMachineArePrintable) {
  std::thread other = join([](int hub) {
    RankResult result;
    result.plugin_name = std::string(kEscapes) + "plugin";
    result.device_name = std::string(kEscapes) + "device";
    for (uint16_t rank = 0; rank < 2; ++rank) send_frame(hub, {FrameType::kResult, rank, result});
  });
  {
    Hub hub(options_, Machine{});
    for (const RankResult& result : hub.run(Job{}, [](const nlohmann::json&) {})) {
      EXPECT_FALSE(has_control_characters(result.plugin_name + result.device_name));
      EXPECT_NE(result.plugin_name.find("plugin"), std::string::npos);
    }
  }
  other.join();
}

}  // namespace
}  // namespace lyre::allreduce
