#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/owned_fd.h"
#include "daemon/launcher.h"
#include "libclient/include/lyre/lyre.h"
#include "tests/support/deadline.h"
#include "tests/unit/daemon/daemon_fixture.h"
#include "tests/unit/daemon/service_manager.h"

// A whole daemon of this process whose ports need long to pin a client's memory: what its other
// clients notice of that.
namespace lyre {
namespace {

using Clock = std::chrono::steady_clock;

/// As much as a client may register (clients.registered_bytes_max). The file is sparse: only pages
/// that are sent take memory.
constexpr size_t kLargeBytes = size_t{64} << 30;
/// More than is mapped at once, so that its turn comes after the large memory.
constexpr size_t kMediumBytes = size_t{40} << 20;
constexpr size_t kSmallBytes = size_t{1} << 20;
/// Longer than a client waits for an answer of which it hears nothing (2 s).
constexpr auto kPinning = std::chrono::milliseconds(3000);
/// What has not come by then does not come.
constexpr auto kPatience = std::chrono::seconds(20);

/// Ports that pin large memory only when the test lets them.
class SlowlyPinningBackend : public SimBackend {
 public:
  struct Gate {
    std::atomic<bool> is_pinning{false};
    std::atomic<bool> is_open{false};
    std::atomic<bool> is_in_window{false};  ///< the large memory
    void open() {
      is_open = true;
      is_open.notify_all();
    }
  };
  SlowlyPinningBackend(Ports& ports, Gate& gate) : SimBackend(ports), gate_(gate) {}
  void set_region_window(std::span<const uint8_t> window) override { window_ = window; }
  Status map_for_ports(const io::RegionMemory& memory) override {
    if (memory.bytes < kLargeBytes) return Ok{};
    const uint8_t* end = window_.data() + window_.size();
    gate_.is_in_window = memory.base >= window_.data() && memory.base + memory.bytes <= end;
    gate_.is_pinning = true;
    gate_.is_pinning.notify_all();
    gate_.is_open.wait(false);
    return Ok{};
  }

 private:
  Gate& gate_;
  std::span<const uint8_t> window_;
};

class SparseMemory {
 public:
  explicit SparseMemory(size_t bytes)
      : bytes_(bytes), file_(::memfd_create("lyre-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    base_ =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
    EXPECT_NE(base_, MAP_FAILED);
  }
  ~SparseMemory() { ::munmap(base_, bytes_); }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(base_); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  OwnedFd file_;
  void* base_ = nullptr;
};

/// A client. Thread: one.
class Client {
 public:
  explicit Client(const std::string& socket) {
    const lyre_options options{.struct_bytes = sizeof options,
                               .socket_path = socket.c_str(),
                               .label = "large",
                               .arena_bytes = 1 << 20,
                               .patience_ms = 60'000};
    EXPECT_EQ(lyre_context_open(&options, &context_), 0) << lyre_last_error();
  }
  ~Client() { lyre_context_close(context_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  lyre_context* get() const { return context_; }

  lyre_region* register_all(const SparseMemory& memory) {
    lyre_region* region = nullptr;
    EXPECT_EQ(lyre_register(context_, memory.data(), memory.bytes(), &region), 0)
        << lyre_last_error();
    const char* why = "";
    EXPECT_EQ(lyre_region_is_direct(region, &why), 1) << why;
    return region;
  }

 private:
  lyre_context* context_ = nullptr;
};

/// Polls both until `is_done`, about a minute at most.
bool poll_until(const Client& one, const Client& other, const std::function<bool()>& is_done) {
  const test::Deadline deadline;
  while (!is_done()) {
    if (deadline.is_over()) return false;
    lyre_poll(one.get(), 1);
    lyre_poll(other.get(), 0);
  }
  return true;
}

/// Sends the last kSmallBytes of the region to another client of the daemon. True: they arrived.
bool transfer(const std::string& socket, const Client& sender, lyre_region* region,
              const SparseMemory& memory) {
  const Client receiver(socket);
  lyre_addr address{};
  EXPECT_EQ(lyre_addr_parse("10.9.0.1:0", &address), 0);
  lyre_listener* listener = nullptr;
  EXPECT_EQ(lyre_listen(receiver.get(), &address, 1, &listener), 0) << lyre_last_error();
  EXPECT_EQ(lyre_listener_addr(listener, &address), 0);
  lyre_session* from = nullptr;
  lyre_session* to = nullptr;
  EXPECT_EQ(lyre_connect(sender.get(), nullptr, &address, &from), 0) << lyre_last_error();
  const auto is_open = [&] {
    return (to != nullptr || lyre_accept(listener, &to) == 0) && lyre_state(from) == LYRE_OPEN;
  };
  if (!poll_until(sender, receiver, is_open)) return false;
  const uint8_t* begin = memory.data() + memory.bytes() - kSmallBytes;
  EXPECT_EQ(lyre_send_region(from, region, begin, kSmallBytes, 0), 0) << lyre_last_error();
  std::vector<uint8_t> got(kSmallBytes);
  size_t received = 0;
  const auto is_received = [&] {
    const int64_t count = lyre_recv(to, got.data() + received, got.size() - received);
    if (count > 0) received += static_cast<size_t>(count);
    return received == got.size() && lyre_unacked_bytes(from) == 0;
  };
  const bool is_whole = poll_until(sender, receiver, is_received);
  lyre_abort(from);
  return is_whole && std::memcmp(got.data(), begin, kSmallBytes) == 0;
}

class LargeMemoryTest : public DaemonTest {
 protected:
  ~LargeMemoryTest() override { gate_.open(); }

  /// Runs `clients` on a thread beside a daemon, and then ends the daemon.
  void beside_daemon(const std::function<void()>& clients) {
    auto launcher =
        Launcher::start(config(), io_,
                        {.start_backend =
                             [this](const Config&, const auto&) {
                               return Result<std::unique_ptr<io::Backend>>(
                                   std::make_unique<SlowlyPinningBackend>(states_, gate_));
                             },
                         .drop_privileges = [](const Config&) -> Status { return Ok{}; }});
    ASSERT_TRUE(launcher.ok()) << launcher.error().text;
    std::thread thread([&] {
      clients();
      gate_.open();
      boost::asio::post(io_, [&] { (*launcher)->begin_stop(); });
    });
    io_.run();
    thread.join();
  }

  /// What another client does: it attaches, registers memory of its own, sends of it, and leaves.
  void live_a_life() {
    SparseMemory memory(kSmallBytes);
    std::memset(memory.data(), 0x5a, memory.bytes());
    Client client(socket());
    lyre_region* region = client.register_all(memory);
    EXPECT_TRUE(transfer(socket(), client, region, memory));
    EXPECT_EQ(lyre_deregister(region), 0) << lyre_last_error();
  }

  ServiceManager manager_{directory_ + "/notify"};
  SlowlyPinningBackend::Gate gate_;
};

TEST_F(LargeMemoryTest, OthersAttachRegisterAndSendWhileItIsPinned) {
  beside_daemon([this] {
    const SparseMemory large(kLargeBytes);
    const SparseMemory medium(kMediumBytes);
    Client owner(socket());
    Client next(socket());
    lyre_region* of_owner = nullptr;
    lyre_region* of_next = nullptr;
    std::atomic<int> registered{0};
    std::thread first([&] {
      of_owner = owner.register_all(large);
      ++registered;
    });
    gate_.is_pinning.wait(false);
    std::thread second([&] {
      of_next = next.register_all(medium);
      ++registered;
    });
    const int signs_wanted = manager_.signs_of_life() + 4;
    const auto end = Clock::now() + kPinning;
    for (int lives = 0; lives < 3 || Clock::now() < end; ++lives) live_a_life();
    const test::Deadline hung(kPatience);
    while (manager_.signs_of_life() < signs_wanted && !hung.is_over()) live_a_life();
    EXPECT_GE(manager_.signs_of_life(), signs_wanted);
    EXPECT_EQ(registered, 0);
    gate_.open();
    first.join();
    second.join();
    EXPECT_TRUE(transfer(socket(), owner, of_owner, large)) << "its context lives, too";
    EXPECT_TRUE(transfer(socket(), next, of_next, medium));
    EXPECT_EQ(lyre_deregister(of_owner), 0) << lyre_last_error();
  });
}

TEST_F(LargeMemoryTest, AClientHasNoMoreThanThat) {
  gate_.open();
  beside_daemon([this] {
    const SparseMemory large(kLargeBytes);
    const SparseMemory small(kSmallBytes);
    Client owner(socket());
    lyre_region* region = owner.register_all(large);
    EXPECT_TRUE(gate_.is_in_window) << "the ports know where registered memory lies";
    lyre_region* refused = nullptr;
    EXPECT_EQ(lyre_register(owner.get(), small.data(), small.bytes(), &refused), 0);
    const char* why = "";
    EXPECT_EQ(lyre_region_is_direct(refused, &why), 0);
    EXPECT_NE(std::strstr(why, "a client has at most 65536 MiB registered"), nullptr) << why;
    EXPECT_TRUE(transfer(socket(), owner, refused, small)) << "it is copied";
    EXPECT_EQ(lyre_deregister(region), 0) << lyre_last_error();
    EXPECT_EQ(lyre_deregister(refused), 0);
    refused = owner.register_all(small);
    EXPECT_EQ(lyre_deregister(refused), 0);
  });
}

}  // namespace
}  // namespace lyre
