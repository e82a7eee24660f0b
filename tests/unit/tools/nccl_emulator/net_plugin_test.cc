#include "tools/nccl_emulator/net_plugin.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "nccl_adapter/abi/nccl_settings.h"
#include "tests/unit/tools/nccl_emulator/recording.h"
#include "tools/nccl_emulator/failure.h"
#include "tools/nccl_emulator/library.h"
#include "tools/nccl_emulator/plugin_log.h"

namespace lyre::nccl_emulator {
namespace {

using nccl_abi::Result;

constexpr uint64_t kCommId = 0x1122334455667788;

void* as_pointer(uintptr_t value) { return reinterpret_cast<void*>(value); }

class NetPluginCalls : public ::testing::TestWithParam<int> {
 protected:
  NetPluginCalls() : plugin_(load_net_plugin(recording_plugin(), GetParam())) {
    recorded_calls().clear();
  }
  ~NetPluginCalls() override { plugin_->unload(); }

  bool has_profiler() const { return GetParam() >= 10; }
  bool has_context() const { return GetParam() >= 11; }
  static const RecordedCall& last() { return recorded_calls().back(); }

  std::unique_ptr<NetPlugin> plugin_;
};
INSTANTIATE_TEST_SUITE_P(Abi, NetPluginCalls, ::testing::Values(8, 9, 10, 11, 12),
                         [](const auto& instance) { return "v" + std::to_string(instance.param); });

TEST_P(NetPluginCalls, InitPassesWhatTheVersionHas) {
  EXPECT_EQ(plugin_->abi(), GetParam());
  EXPECT_STREQ(plugin_->name(), "Recording");
  ASSERT_EQ(plugin_->init(kCommId), Result::kSuccess);
  const RecordedCall init = recorded_calls().front();
  EXPECT_EQ(init.function, "init");
  EXPECT_EQ(init.has_profiler, has_profiler());
  EXPECT_EQ(init.has_context, has_context());
  EXPECT_EQ(init.comm_id, has_context() ? kCommId : 0);
  EXPECT_EQ(last().function, has_context() ? "set_net_attr" : "init");
  EXPECT_EQ(last().has_context, has_context());
  EXPECT_EQ(logged_lines().back().text, "NET/Recording : init");
  EXPECT_EQ(plugin_->finalize(), Result::kSuccess);
  EXPECT_EQ(last().function == "finalize", has_context());
}

TEST_P(NetPluginCalls, PropertiesKeepDefaultsOfWhatTheVersionLacks) {
  NetProperties properties;
  ASSERT_EQ(plugin_->get_properties(0, &properties), Result::kSuccess);
  EXPECT_EQ(properties.name, "rec0");
  EXPECT_TRUE(properties.has_pci_path);
  EXPECT_EQ(properties.ptr_support, nccl_abi::kPtrHost);
  EXPECT_EQ(properties.speed_mbps, 25'000);
  EXPECT_EQ(properties.latency_us, 3);
  EXPECT_EQ(properties.comms_max, 5);
  EXPECT_EQ(properties.recvs_max, 1);
  EXPECT_EQ(properties.p2p_bytes_max, GetParam() >= 9 ? 4096 : nccl_abi::kNetBytesMaxV8);
  EXPECT_EQ(properties.vdevice_size, GetParam() >= 9 ? 1 : 0);
  EXPECT_EQ(plugin_->get_properties(1, &properties), Result::kInvalidArgument);
  EXPECT_EQ(properties.name, "rec0");  // untouched by the call that failed
  int devices = 0;
  EXPECT_EQ(plugin_->devices(&devices), Result::kSuccess);
  EXPECT_EQ(devices, 2);
}

TEST_P(NetPluginCalls, CommsPassHandleAndContext) {
  ASSERT_EQ(plugin_->init(kCommId), Result::kSuccess);
  HandleBuffer handle{};
  void* comm = nullptr;
  ASSERT_EQ(plugin_->listen(0, handle.data(), &comm), Result::kSuccess);
  EXPECT_EQ(last().data, handle.data());
  EXPECT_EQ(last().has_context, has_context());
  EXPECT_EQ(comm, as_pointer(kRecordedComm));
  ASSERT_EQ(plugin_->connect(0, handle.data(), &comm), Result::kSuccess);
  EXPECT_EQ(last().function, "connect");
  EXPECT_EQ(last().data, handle.data());
  EXPECT_EQ(last().has_context, has_context());
  ASSERT_EQ(plugin_->accept(comm, &comm), Result::kSuccess);
  EXPECT_EQ(last().comm, as_pointer(kRecordedComm));
  EXPECT_EQ(plugin_->close_send(comm), Result::kSuccess);
  EXPECT_EQ(plugin_->close_recv(comm), Result::kSuccess);
  EXPECT_EQ(last().function, "close");
  EXPECT_EQ(plugin_->close_listen(comm), Result::kSuccess);
  EXPECT_EQ(last().function, "close_listen");
}

TEST_P(NetPluginCalls, MessagesPassAllThatTheVersionTakes) {
  char data[64];
  const Message message{.data = data,
                        .bytes = 64,
                        .tag = 7,
                        .mhandle = as_pointer(kRecordedMhandle),
                        .phandle = nullptr};
  void* request = nullptr;
  ASSERT_EQ(plugin_->isend(as_pointer(1), message, &request), Result::kSuccess);
  EXPECT_EQ(request, as_pointer(kRecordedRequest));
  request = as_pointer(nccl_abi::kOptionalRecvCompletion);
  ASSERT_EQ(plugin_->irecv(as_pointer(1), message, &request), Result::kSuccess);
  EXPECT_EQ(request, as_pointer(kRecordedRequest));
  EXPECT_EQ(last().request_on_entry, as_pointer(nccl_abi::kOptionalRecvCompletion));
  for (const RecordedCall& call : recorded_calls()) {
    EXPECT_EQ(call.comm, as_pointer(1)) << call.function;
    EXPECT_EQ(call.data, data) << call.function;
    EXPECT_EQ(call.bytes, 64u) << call.function;
    EXPECT_EQ(call.tag, 7) << call.function;
    EXPECT_EQ(call.mhandle, as_pointer(kRecordedMhandle)) << call.function;
  }
  int done = 0;
  int bytes = 0;
  EXPECT_EQ(plugin_->test(request, &done, &bytes), Result::kSuccess);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(bytes, kRecordedBytes);
  EXPECT_EQ(plugin_->test(request, &done, nullptr), Result::kSuccess);
}

TEST_P(NetPluginCalls, PhandleGoesOnlyToVersionsThatTakeIt) {
  char data = 0;
  int event = 0;  // a receive does not look at it
  void* request = nullptr;
  ASSERT_EQ(plugin_->irecv(nullptr, {.data = &data, .bytes = 1, .phandle = &event}, &request),
            Result::kSuccess);
  EXPECT_EQ(last().phandle, has_profiler() ? &event : nullptr);
}

TEST_P(NetPluginCalls, RegistrationAndFlush) {
  char data[8];
  void* mhandle = nullptr;
  ASSERT_EQ(plugin_->reg_mr(as_pointer(1), data, 8, nccl_abi::kPtrCuda, &mhandle),
            Result::kSuccess);
  EXPECT_EQ(mhandle, as_pointer(kRecordedMhandle));
  EXPECT_EQ(last().bytes, 8u);
  EXPECT_EQ(last().tag, nccl_abi::kPtrCuda);
  EXPECT_EQ(plugin_->dereg_mr(as_pointer(1), mhandle), Result::kSuccess);
  EXPECT_EQ(last().mhandle, as_pointer(kRecordedMhandle));
  void* request = &data;
  EXPECT_EQ(plugin_->iflush(as_pointer(1), data, &request), Result::kSuccess);
  EXPECT_EQ(last().data, data);
}

// NCCL 2.28.3 to 2.29.7, which take v11, clear their entry of a plugin that they unload.
TEST_P(NetPluginCalls, OnlyV11LosesTheLibrarysNameWhenItIsUnloaded) {
  EXPECT_EQ(plugin_->library_name(), recording_plugin());
  ::unsetenv(nccl_abi::kPluginUsersSetting);
  plugin_->unload();
  EXPECT_EQ(plugin_->library_name(), GetParam() == 11 ? "" : recording_plugin());
}

TEST_P(NetPluginCalls, TheLibrarysNameStaysWhereNcclIsToldToKeepThePlugin) {
  ::setenv(nccl_abi::kPluginUsersSetting, "1", 1);
  plugin_->unload();
  ::unsetenv(nccl_abi::kPluginUsersSetting);
  EXPECT_EQ(plugin_->library_name(), recording_plugin());
  plugin_ = load_net_plugin(plugin_->library_name(), GetParam());
}

TEST(LoadNetPlugin, TakesTheNewestTable) {
  const auto plugin = load_net_plugin(recording_plugin());
  EXPECT_EQ(plugin->abi(), 12);
  plugin->unload();
}

TEST(LoadNetPlugin, NamesWhatIsMissing) {
  const auto failure_of = [](const std::string& path, int abi) -> std::string {
    try {
      (void)load_net_plugin(path, abi);
      return "loaded";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  EXPECT_EQ(failure_of("/nonexistent/libx.so", 0).find("cannot load the plugin: /nonexistent"), 0u);
  // A library without any table.
  EXPECT_EQ(failure_of("libdl.so.2", 0), "libdl.so.2 exports no ncclNetPlugin_v8 to _v12");
  EXPECT_EQ(failure_of("libdl.so.2", 9), "libdl.so.2 exports no ncclNetPlugin_v9");
  // Perhaps the machine has another plugin of that name.
  if (const Library other(::dlopen("libnccl-net.so", RTLD_NOW | RTLD_LOCAL)); other == nullptr) {
    EXPECT_EQ(failure_of("", 11).find("cannot load the plugin: libnccl-net.so"), 0u);
  }
}

}  // namespace
}  // namespace lyre::nccl_emulator
