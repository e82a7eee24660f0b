#include "nccl_adapter/plugin/open_instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/abi/telemetry.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/plugin/plugin.h"
#include "nccl_adapter/plugin/properties.h"
#include "tests/sim/adapter/rdma.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> g_verbs_lines;

void keep_verbs_line(nccl_abi::LogLevel, unsigned long, const char*, int, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::string line = text;
  if (line.find("RDMA device") != std::string::npos) g_verbs_lines.push_back(line);
}

/// Communicators that a process makes and uses, on a host with an RDMA device, whose port is down
/// at first.
class CommunicatorsWithRdma : public TwoHosts {
 protected:
  CommunicatorsWithRdma() {
    char name[] = "/tmp/lyre-inits-XXXXXX";
    directory_ = ::mkdtemp(name);
    ::setenv("LYRE_TELEMETRY_DIR", directory_.c_str(), 1);
    ::setenv("LYRE_SOCKET", "sim/0", 1);
    ::setenv("LYRE_VERBS", "auto", 1);
    rdma_.add_device(0);
    set_link(false);
    adapter_sim::set_rdma(&rdma_);
    set_known_ports({}, {}, 0);  // as before the first init of a process
  }
  ~CommunicatorsWithRdma() override {
    for (void* listening : listening_) close_listen(listening);
    for (void* context : contexts_) finalize(context);
    EXPECT_EQ(rdma_.open_contexts(), 0u);
    adapter_sim::set_rdma(nullptr);
    set_logger(nullptr);
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET", "LYRE_VERBS"}) ::unsetenv(name);
    std::filesystem::remove_all(directory_);
  }

  void set_link(bool is_up) { rdma_.devices().front()->is_link_up = is_up; }
  nccl_abi::Result use() {
    g_verbs_lines.clear();
    void* context = nullptr;
    const nccl_abi::Result result = init_context(&context, 0, keep_verbs_line, nullptr);
    if (result != nccl_abi::Result::kSuccess) return result;
    contexts_.push_back(context);
    std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
    listening_.push_back(nullptr);
    return listen(context, 0, handle.data(), &listening_.back());
  }
  /// What `lyre comms` says of RDMA, by instance.
  std::vector<std::string> shown() const {
    std::vector<std::string> texts;
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      nccl_abi::TelemetryHeader header{};
      std::ifstream(file.path(), std::ios::binary)
          .read(reinterpret_cast<char*>(&header), sizeof header);
      texts.emplace_back(header.verbs);
    }
    return texts;
  }

 private:
  std::string directory_;
  adapter_sim::RdmaNetwork rdma_{adapter_sim::RdmaSettings{}, events_, 1};
  std::vector<void*> contexts_;
  std::vector<void*> listening_;
};

TEST_F(CommunicatorsWithRdma, SayWhyAPortIsNotUsedAsOfTheirTime) {
  ASSERT_EQ(use(), nccl_abi::Result::kSuccess);
  EXPECT_THAT(shown(), ElementsAre("sim0: the port is not active"));
  set_link(true);
  ASSERT_EQ(use(), nccl_abi::Result::kSuccess);
  EXPECT_THAT(shown(), UnorderedElementsAre("sim0: the port is not active", ""));
}

TEST_F(CommunicatorsWithRdma, LogWhatIsKnownOfDevicesWhenItChanges) {
  set_link(true);
  ASSERT_EQ(use(), nccl_abi::Result::kSuccess);
  set_link(false);
  ASSERT_EQ(use(), nccl_abi::Result::kSuccess);
  EXPECT_THAT(g_verbs_lines,
              ElementsAre("NET/Lyre : RDMA device sim0, cannot be used: the port is not active"));
  ASSERT_EQ(use(), nccl_abi::Result::kSuccess);
  EXPECT_THAT(g_verbs_lines, IsEmpty());
}

TEST_F(CommunicatorsWithRdma, ThatSendOverRdmaOnlyFailUntilAPortWasThereOnce) {
  ::setenv("LYRE_VERBS", "only", 1);
  EXPECT_EQ(use(), nccl_abi::Result::kSystemError);
  set_link(true);
  EXPECT_EQ(use(), nccl_abi::Result::kSuccess);
  set_link(false);
  EXPECT_EQ(use(), nccl_abi::Result::kSuccess) << "its comms wait for the port";
}

}  // namespace
}  // namespace lyre::nccl_adapter
