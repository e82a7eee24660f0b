#include "libclient/sized_struct.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

/// A struct of a program that was compiled with another header: so many bytes, and the byte behind
/// them cannot be touched.
template <typename Struct>
class ForeignStruct {
 public:
  explicit ForeignStruct(uint64_t bytes, uint8_t fill = 0)
      : page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    void* at =
        ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(MAP_FAILED, at);
    pages_ = static_cast<uint8_t*>(at);
    EXPECT_EQ(0, ::mprotect(pages_ + page_, page_, PROT_NONE));
    bytes_ = pages_ + page_ - bytes;
    std::memset(bytes_, fill, bytes);
    get()->struct_bytes = bytes;
  }
  ~ForeignStruct() { ::munmap(pages_, 2 * page_); }
  ForeignStruct(const ForeignStruct&) = delete;
  ForeignStruct& operator=(const ForeignStruct&) = delete;

  Struct* get() { return reinterpret_cast<Struct*>(bytes_); }
  Struct* operator->() { return get(); }
  uint8_t& byte(uint64_t at) { return bytes_[at]; }

 private:
  size_t page_;
  uint8_t* pages_ = nullptr;
  uint8_t* bytes_ = nullptr;
};

int open_code(const lyre_options* options) {
  lyre_context* context = nullptr;
  const int code = lyre_context_open(options, &context);
  lyre_context_close(context);
  return code;
}

TEST(SizedStruct, AnOlderProgramsOptionsMeanTheDefaults) {
  FakeDaemon daemon;
  ForeignStruct<lyre_options> options(offsetof(lyre_options, label));
  options->socket_path = daemon.socket_path();
  EXPECT_EQ(0, open_code(options.get())) << lyre_last_error();
}

TEST(SizedStruct, ANewerProgramsOptionsAreTakenWhileTheUnknownIsZero) {
  FakeDaemon daemon;
  ForeignStruct<lyre_options> options(sizeof(lyre_options) + 16);
  options->socket_path = daemon.socket_path();
  options.byte(sizeof(lyre_options) + 3) = 1;
  EXPECT_EQ(LYRE_E_INVALID, open_code(options.get()));
  EXPECT_EQ(std::string("lyre_options has 56 bytes and sets byte 43; this library (") +
                lyre_version() + ") knows the first 40",
            lyre_last_error());
  options.byte(sizeof(lyre_options) + 3) = 0;
  EXPECT_EQ(0, open_code(options.get())) << lyre_last_error();
}

TEST(SizedStruct, ASizeThatNoHeaderHasIsRefused) {
  lyre_options options{};
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{4}, uint64_t{33}, uint64_t{4104}, UINT64_MAX}) {
    options.struct_bytes = bytes;
    EXPECT_EQ(LYRE_E_INVALID, open_code(&options)) << bytes;
    EXPECT_NE(nullptr, strstr(lyre_last_error(), "set it to sizeof(lyre_options)"));
  }
}

class SizedOutput : public ::testing::Test {
 protected:
  ~SizedOutput() override { lyre_context_close(context_); }
  FakeDaemon daemon_;
  lyre_context* context_ = daemon_.attach();
};

TEST_F(SizedOutput, AnOlderProgramsPortIsFilledAsFarAsItGoes) {
  ForeignStruct<lyre_port> port(offsetof(lyre_port, pci_path), 0xEE);
  ASSERT_EQ(0, lyre_port_info(context_, 0, port.get())) << lyre_last_error();
  EXPECT_STREQ("memif0", port->name);
  EXPECT_EQ(offsetof(lyre_port, pci_path), port->struct_bytes);
}

TEST_F(SizedOutput, WhatTheLibraryDoesNotKnowOfANewerProgramsPortIsZero) {
  ForeignStruct<lyre_port> port(sizeof(lyre_port) + 24, 0xEE);
  ASSERT_EQ(0, lyre_port_info(context_, 0, port.get())) << lyre_last_error();
  EXPECT_EQ(1500u, port->mtu_bytes);
  EXPECT_EQ(sizeof(lyre_port) + 24, port->struct_bytes);
  for (uint64_t i = 0; i < 24; ++i) EXPECT_EQ(0, port.byte(sizeof(lyre_port) + i)) << i;
}

TEST_F(SizedOutput, AnEventThatHasNoPlaceIsNotLost) {
  lyre_session* session = open_session(daemon_, context_, {1, 1});
  daemon_.tell(peer_finished({1, 1}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  lyre_event wrong{};
  EXPECT_EQ(LYRE_E_INVALID, lyre_next_event(context_, &wrong));
  EXPECT_STREQ("lyre_event.struct_bytes is 0: set it to sizeof(lyre_event)", lyre_last_error());
  ForeignStruct<lyre_event> older(offsetof(lyre_event, happened));
  EXPECT_EQ(1, lyre_next_event(context_, older.get()));
  EXPECT_EQ(session, older->session);
  ForeignStruct<lyre_event> newer(sizeof(lyre_event) + 8, 0xEE);
  EXPECT_EQ(0, lyre_next_event(context_, newer.get()));
  EXPECT_EQ(nullptr, newer->session);
  EXPECT_EQ(0, newer.byte(sizeof(lyre_event)));
}

// Events of one session are one, and say all that happened.
TEST_F(SizedOutput, EventsOfOneSessionCollect) {
  lyre_session* session = open_session(daemon_, context_, {1, 1});
  daemon_.tell(data({1, 1}, {{.slot = 1, .bytes = 4, .offset = 0}}));
  daemon_.tell(peer_finished({1, 1}));
  daemon_.tell(ended({1, 1}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  const lyre_event event = next_event(context_);
  EXPECT_EQ(session, event.session);
  EXPECT_EQ(LYRE_EVENT_DATA | LYRE_EVENT_PEER_FIN | LYRE_EVENT_ENDED, event.happened);
  EXPECT_EQ(0u, next_event(context_).happened);
}

TEST_F(SizedOutput, ReservedFieldsOfAnAddressAreZero) {
  lyre_addr remote = address("10.9.0.2:5000");
  remote.reserved_32 = 1;
  lyre_session* session = nullptr;
  lyre_listener* listener = nullptr;
  char text[64];
  EXPECT_EQ(LYRE_E_INVALID, lyre_connect(context_, nullptr, &remote, &session));
  EXPECT_EQ(LYRE_E_INVALID, lyre_listen(context_, &remote, 1, &listener));
  EXPECT_EQ(LYRE_E_INVALID, lyre_addr_format(&remote, text, sizeof text));
  EXPECT_NE(nullptr, strstr(lyre_last_error(), "a reserved field of a lyre_addr is not 0"));
}

}  // namespace
}  // namespace lyre::client
