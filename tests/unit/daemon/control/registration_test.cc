#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "tests/unit/daemon/control_fixture.h"

// Registered memory on the control socket: what clients ask for, what workers are told, and what
// happens to those who ask for what is not theirs.
namespace lyre {
namespace {

using Kind = worker::Command::Kind;
using ReplyKind = worker::Reply::Kind;

const uint64_t kRegionPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));

class RegistrationTest : public ControlServerTest {
 protected:
  explicit RegistrationTest(const RegistryOptions& terms = registry_options(),
                            Nanos mapping_patience = kMappingPatience)
      : ControlServerTest(terms, mapping_patience),
        file_(::memfd_create("lyre-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::ftruncate(file_.get(), 8 * kRegionPage), 0);
    const uint8_t mark = 77;
    EXPECT_EQ(::pwrite(file_.get(), &mark, 1, kRegionPage), 1);
  }

  void attach(RawClient& client) {
    client.send(attach_request());
    run();
    ASSERT_EQ(expect_message<channel::AttachReply>(client, Control::kAttached).error, 0);
    for (auto& posted : workers_.posted) posted.clear();
  }
  static channel::RegisterRequest request(uint64_t offset, uint64_t bytes) {
    auto out = make_message<channel::RegisterRequest>(Control::kRegister);
    out.source = channel::RegionSource::kDescriptor;
    out.offset = offset;
    out.bytes = bytes;
    return out;
  }
  static channel::DeregisterRequest removal(uint32_t region) {
    auto out = make_message<channel::DeregisterRequest>(Control::kDeregister);
    out.region = region;
    return out;
  }
  /// All workers answer what they were told last.
  void answer(ReplyKind kind) {
    for (uint32_t i = 0; i < workers_.count(); ++i) {
      const worker::Command told = workers_.posted[i].back();
      workers_.answers[i].push_back({.kind = kind, .context = told.context, .region = told.region});
    }
    deliver();
  }
  void deliver() {
    std::vector<Expulsion> expulsions;
    registry_.poll(expulsions);
    for (const Expulsion& expulsion : expulsions) server_->expel(expulsion);
    for (const RegionAnswer& said : registry_.regions().take_answers()) server_->answer(said);
    run();
  }
  uint32_t register_pages(RawClient& client, uint64_t offset, uint64_t bytes) {
    client.send_with(request(offset, bytes), {file_.get()});
    run();
    answer(ReplyKind::kRegionAdded);
    const auto reply = expect_message<channel::RegionReply>(client, Control::kRegistered);
    EXPECT_EQ(reply.error, 0) << reply.text;
    return reply.region;
  }

  static bool has_answer(const RawClient& client) {
    char byte;
    return ::recv(client.fd(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) > 0;
  }

  OwnedFd file_;
};

TEST_F(RegistrationTest, EveryWorkerKnowsTheMemoryBeforeTheClientHearsOfIt) {
  RawClient client(path_);
  attach(client);
  client.send_with(request(kRegionPage, 2 * kRegionPage), {file_.get()});
  run();
  const worker::Command told = workers_.posted[1].back();
  EXPECT_EQ(told.kind, Kind::kAddRegion);
  EXPECT_EQ(told.memory_bytes, 2 * kRegionPage);
  EXPECT_EQ(told.memory[0], 77);
  EXPECT_EQ(told.memory, workers_.posted[0].back().memory);
  workers_.answers[0].push_back(
      {.kind = ReplyKind::kRegionAdded, .context = told.context, .region = told.region});
  deliver();
  EXPECT_FALSE(client.receive().has_value());
  workers_.answers[1].push_back(
      {.kind = ReplyKind::kRegionAdded, .context = told.context, .region = told.region});
  deliver();
  const auto reply = expect_message<channel::RegionReply>(client, Control::kRegistered);
  EXPECT_EQ(reply.error, 0);
  EXPECT_EQ(reply.region, told.region);
}

TEST_F(RegistrationTest, MemoryGoesWhenEveryWorkerLetGoOfIt) {
  RawClient client(path_);
  attach(client);
  const uint32_t region = register_pages(client, 0, kRegionPage);
  client.send(removal(region));
  run();
  EXPECT_EQ(workers_.posted[0].back().kind, Kind::kRemoveRegion);
  EXPECT_EQ(registry_.regions().mapped_count(), 1u);
  EXPECT_FALSE(client.receive().has_value());
  answer(ReplyKind::kRegionRemoved);
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kDeregistered).error, 0);
  EXPECT_EQ(registry_.regions().mapped_count(), 0u);
  EXPECT_NE(register_pages(client, 0, kRegionPage), region);  // a name is not used again soon
}

// An aborted job gives its buffers back one after the other, and each took a second.
TEST_F(RegistrationTest, AClientWaitsOnceForAPortThatHoldsPackets) {
  RawClient client(path_);
  attach(client);
  const uint32_t first = register_pages(client, 0, kRegionPage);
  const uint32_t next = register_pages(client, kRegionPage, kRegionPage);
  RawClient other(path_);
  attach(other);
  const uint32_t of_other = register_pages(other, 0, kRegionPage);

  client.send(removal(first));
  ASSERT_TRUE(run_until([&] { return has_answer(client); }));
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kDeregistered).error, ETIMEDOUT);

  other.send(removal(of_other));
  io_.restart();
  io_.run_for(std::chrono::milliseconds(20));
  client.send(removal(next));
  ASSERT_TRUE(run_until([&] { return has_answer(client) || has_answer(other); }));
  ASSERT_TRUE(has_answer(client));  // not the one that asked before
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kDeregistered).error, ETIMEDOUT);
}

// Clients that register without a pause kept an upgrade from finding a moment of rest.
TEST_F(RegistrationTest, RequestsThatAreHeldWaitInTheirSocketAndNobodyElseDoes) {
  RawClient client(path_);
  attach(client);
  server_->hold_memory_requests(true);
  client.send_with(request(kRegionPage, kRegionPage), {file_.get()});
  RawClient other(path_);
  attach(other);
  EXPECT_FALSE(server_->has_pending_requests());
  std::optional<std::vector<uint8_t>> news;
  ASSERT_TRUE(run_until([&] { return news.has_value() || (news = client.receive()).has_value(); }));
  channel::RegionReply reply{};
  ASSERT_EQ(news->size(), sizeof reply);
  std::memcpy(static_cast<void*>(&reply), news->data(), sizeof reply);
  EXPECT_EQ(reply.header.type, Control::kRegionPending);
  EXPECT_TRUE(workers_.posted[0].empty());

  server_->hold_memory_requests(false);
  run();
  ASSERT_FALSE(workers_.posted[0].empty());
  answer(ReplyKind::kRegionAdded);
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kRegistered).error, 0);
}

TEST_F(RegistrationTest, AWorkerThatWillNotHaveItIsAnAnswer) {
  RawClient client(path_);
  attach(client);
  client.send_with(request(0, kRegionPage), {file_.get()});
  run();
  answer(ReplyKind::kRegionRefused);
  EXPECT_FALSE(client.receive().has_value());
  answer(ReplyKind::kRegionRemoved);
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kRegistered).error, EBUSY);
  EXPECT_EQ(registry_.regions().mapped_count(), 0u);
}

TEST_F(RegistrationTest, MemoryLeavesWithItsClient) {
  RawClient client(path_);
  attach(client);
  register_pages(client, 0, kRegionPage);
  register_pages(client, kRegionPage, kRegionPage);
  client.hang_up();
  run();
  workers_.answer_detaches();
  deliver();
  EXPECT_EQ(registry_.regions().mapped_count(), 0u);
  EXPECT_EQ(registry_.held_count(), 0u);
}

TEST_F(RegistrationTest, WhatCannotBeMappedIsRefusedAndNothingElse) {
  RawClient client(path_);
  attach(client);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const OwnedFd reader(ends[0]), writer(ends[1]);
  const std::pair<channel::RegisterRequest, int> cases[] = {
      {request(0, 9 * kRegionPage), file_.get()},
      {request(1, kRegionPage), file_.get()},
      {request(0, 0), file_.get()},
      {request(UINT64_MAX - kRegionPage + 1, kRegionPage), file_.get()},
      {request(0, kRegionPage), reader.get()}};
  for (const auto& [asked, fd] : cases) {
    client.send_with(asked, {fd});
    run();
    const auto reply = expect_message<channel::RegionReply>(client, Control::kRegistered);
    EXPECT_EQ(reply.error, EINVAL) << reply.text;
  }
  EXPECT_NE(register_pages(client, 0, kRegionPage), 0u);
}

TEST_F(RegistrationTest, AShareIsAllThereIs) {
  RawClient client(path_);
  attach(client);
  ASSERT_EQ(::ftruncate(file_.get(), 2 << 20), 0);
  register_pages(client, 0, 1 << 20);
  client.send_with(request(0, kRegionPage), {file_.get()});
  run();
  const auto reply = expect_message<channel::RegionReply>(client, Control::kRegistered);
  EXPECT_EQ(reply.error, EDQUOT);
}

/// A share for the clients of one uid that is smaller than those of two contexts.
class SharedRegistrationTest : public RegistrationTest {
 protected:
  SharedRegistrationTest() : options_(registry_options()) {
    options_.regions = {.bytes_per_context_max = 6 * kRegionPage,
                        .bytes_per_uid_max = 8 * kRegionPage,
                        .regions_per_uid_max = 3};
  }
  Result<uint32_t> add(ContextRegistry& registry, uint32_t context, uint64_t pages) {
    return registry.regions().add(
        context, {OwnedFd(::dup(file_.get())), 0, pages * kRegionPage, kRegionPage});
  }
  static uint32_t attach_as(ContextRegistry& registry, uint32_t uid) {
    return registry.attach({.identity = {.pid = 1, .uid = uid, .gid = 1}}).value().index;
  }
  RegistryOptions options_;
};

TEST_F(SharedRegistrationTest, ClientsOfOneUidShareBytesAndRegions) {
  ContextRegistry registry(workers_, options_);
  const uint32_t first = attach_as(registry, 7);
  const uint32_t second = attach_as(registry, 7);
  const uint32_t other = attach_as(registry, 8);
  ASSERT_TRUE(add(registry, first, 6).ok());
  const auto too_large = add(registry, second, 3);
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().code, EDQUOT);
  EXPECT_NE(too_large.error().text.find("registered_bytes_per_uid_max"), std::string::npos);
  ASSERT_TRUE(add(registry, second, 1).ok());
  ASSERT_TRUE(add(registry, second, 1).ok());
  EXPECT_TRUE(add(registry, other, 6).ok());
  EXPECT_FALSE(add(registry, first, 1).ok());
}

TEST_F(SharedRegistrationTest, TheNumberOfRegionsHasAShareToo) {
  ContextRegistry registry(workers_, options_);
  const uint32_t first = attach_as(registry, 7);
  const uint32_t second = attach_as(registry, 7);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(registry, first, 1).ok());
  const auto refused = add(registry, second, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("regions_per_uid_max"), std::string::npos);
  EXPECT_TRUE(add(registry, attach_as(registry, 8), 1).ok());
}

TEST_F(RegistrationTest, PagesThatVanishCostTheirOwnerTheContext) {
  RawClient client(path_);
  attach(client);
  // Sealing cannot be had of this one, so its owner can take the pages away.
  file_.reset(::memfd_create("lyre-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file_.get(), 8 * kRegionPage), 0);
  register_pages(client, 0, 8 * kRegionPage);
  const volatile uint8_t* seen = workers_.posted[0].back().memory;
  ASSERT_EQ(::ftruncate(file_.get(), 0), 0);
  EXPECT_EQ(seen[5 * kRegionPage], 0);
  deliver();
  expect_goodbye(client, "pages of its memory are gone, or the system has none for them");
  workers_.answer_detaches();
  deliver();
  EXPECT_EQ(registry_.regions().mapped_count(), 0u);
  expect_still_serving();
}

struct Breach {
  const char* name;
  const char* reason;
  void (*commit)(RawClient& client, uint32_t others_region, int memory);
};
void PrintTo(const Breach& breach, std::ostream* out) { *out << breach.name; }

class RegistrationBreach : public RegistrationTest, public testing::WithParamInterface<Breach> {
 public:
  using RegistrationTest::removal;
  using RegistrationTest::request;
};

TEST_P(RegistrationBreach, EndsItsClientOnly) {
  RawClient owner(path_);
  attach(owner);
  const uint32_t region = register_pages(owner, 0, kRegionPage);
  RawClient liar(path_);
  attach(liar);
  GetParam().commit(liar, region, file_.get());
  run();
  expect_goodbye(liar, GetParam().reason);
  workers_.answer_detaches();
  deliver();
  EXPECT_EQ(registry_.regions().mapped_count(), 1u);
  owner.send(RegistrationTest::removal(region));
  run();
  answer(ReplyKind::kRegionRemoved);
  EXPECT_EQ(expect_message<channel::RegionReply>(owner, Control::kDeregistered).error, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RegistrationBreach,
    testing::Values(
        Breach{"RemovesAnothersRegion", "the client has no such region",
               [](RawClient& client, uint32_t region, int) {
                 client.send(RegistrationBreach::removal(region));
               }},
        Breach{
            "RemovesWhatIsNoRegion", "the client has no such region",
            [](RawClient& client, uint32_t, int) { client.send(RegistrationBreach::removal(3)); }},
        Breach{"NoDescriptor", "a descriptor is missing or not allowed",
               [](RawClient& client, uint32_t, int) {
                 client.send(RegistrationBreach::request(0, kRegionPage));
               }},
        Breach{"TwoDescriptors", "descriptors that are not allowed",
               [](RawClient& client, uint32_t, int memory) {
                 client.send_with(RegistrationBreach::request(0, kRegionPage), {memory, memory});
               }},
        Breach{"DescriptorWithAMapping", "a descriptor is missing or not allowed",
               [](RawClient& client, uint32_t, int memory) {
                 auto request = RegistrationBreach::request(0, kRegionPage);
                 request.source = channel::RegionSource::kSharedAnonymous;
                 client.send_with(request, {memory});
               }},
        Breach{"UnknownSource", "memory of an unknown source",
               [](RawClient& client, uint32_t, int memory) {
                 auto request = RegistrationBreach::request(0, kRegionPage);
                 request.source = channel::RegionSource{9};
                 client.send_with(request, {memory});
               }},
        Breach{"AsksBeforeTheAnswer",
               "a request about memory without a context, or before the last one was answered",
               [](RawClient& client, uint32_t, int memory) {
                 client.send_with(RegistrationBreach::request(0, kRegionPage), {memory});
                 client.send_with(RegistrationBreach::request(0, kRegionPage), {memory});
               }}));

class MappingRegistrationTest : public RegistrationTest {
 protected:
  explicit MappingRegistrationTest(Nanos patience = kMappingPatience)
      : RegistrationTest(registry_options(), patience) {}

  static constexpr uint64_t kBegin = 0x7f0000000000;

  static channel::RegisterRequest mapping_request() {
    auto out = request(0, kRegionPage);
    out.source = channel::RegionSource::kSharedAnonymous;
    out.mapping_begin = kBegin;
    out.mapping_end = kBegin + kRegionPage;
    return out;
  }
};

// The library takes a daemon for dead that says nothing for two seconds, and its context ends. The
// helper opens mappings of other clients first.
TEST_F(MappingRegistrationTest, AClientHearsThatItsMappingIsBeingOpened) {
  RawClient client(path_);
  attach(client);
  client.send(mapping_request());
  run();
  ASSERT_EQ(helper_.take(), std::vector{kBegin});
  std::optional<std::vector<uint8_t>> heard;
  ASSERT_TRUE(run_until([&] {
    if (!heard) heard = client.receive();
    return heard.has_value();
  }));
  channel::RegionReply news;
  ASSERT_EQ(heard->size(), sizeof news);
  std::memcpy(static_cast<void*>(&news), heard->data(), sizeof news);
  EXPECT_EQ(news.header.type, Control::kRegionPending);
  helper_.answer(kBegin, file_.get());
  run();
  answer(ReplyKind::kRegionAdded);
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kRegistered).error, 0);
}

TEST_F(MappingRegistrationTest, AMappingThatCannotBeOpenedIsAnAnswer) {
  RawClient client(path_);
  attach(client);
  client.send(mapping_request());
  run();
  ASSERT_EQ(helper_.take(), std::vector{kBegin});
  helper_.answer(kBegin);
  run();
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kRegistered).error, EINVAL);
  EXPECT_NE(register_pages(client, 0, kRegionPage), 0u);  // its next request is none too many
}

// The number of its socket may be another client's by the time the request is sent.
TEST_F(MappingRegistrationTest, AClientThatLeavesIsNotAskedAbout) {
  std::vector<RawClient> clients;
  for (size_t i = 0; i <= MappingOpener::kRequestsOfUserMax; ++i) {
    attach(clients.emplace_back(path_));
    clients.back().send(mapping_request());
    run();
  }
  ASSERT_EQ(helper_.take().size(), MappingOpener::kRequestsOfUserMax);
  clients.back().hang_up();
  run();
  helper_.answer(kBegin);
  run();
  EXPECT_TRUE(helper_.take().empty());
}

class SilentHelperTest : public MappingRegistrationTest {
 protected:
  SilentHelperTest() : MappingRegistrationTest(millis(1)) {}
  /// Of a request about memory; news of it come before.
  int32_t answer_of(RawClient& client) {
    channel::RegionReply reply{};
    EXPECT_TRUE(run_until([&] {
      if (reply.header.type == Control::kRegistered) return true;
      const auto heard = client.receive();
      if (!heard || heard->size() != sizeof reply) return false;
      std::memcpy(static_cast<void*>(&reply), heard->data(), sizeof reply);
      return reply.header.type == Control::kRegistered;
    }));
    return reply.error;
  }
};

// A client that kept its mappings locked, with many requests, made each upgrade fail.
TEST_F(SilentHelperTest, NoRequestKeepsAnUpgradeFromItsMoment) {
  std::vector<RawClient> clients;
  for (size_t i = 0; i <= MappingOpener::kRequestsOfUserMax; ++i) {
    attach(clients.emplace_back(path_));
  }
  for (RawClient& client : clients) client.send(mapping_request());
  run();
  server_->hold_memory_requests(true);
  mappings_.refuse_waiting();
  EXPECT_TRUE(run_until([this] { return !server_->has_pending_requests(); }));
  EXPECT_EQ(answer_of(clients[0]), ETIMEDOUT);
  EXPECT_EQ(answer_of(clients[1]), ETIMEDOUT);
  EXPECT_EQ(answer_of(clients[2]), EAGAIN);
}

/// Two domains, whose clients all have this process's uid, as those of containers often have.
class DomainMappingTest : public MappingRegistrationTest {
 protected:
  DomainMappingTest() {
    rules_[0] = {.index = 0, .has_account = true};
    rules_[1] = {.index = 1, .has_account = true};
    server_.reset();
    open(server_, 0, path_);
    open(other_, 1, other_path_);
  }
  void open(std::optional<ControlServer>& server, size_t domain, const std::string& path) {
    ControlOptions terms = options();
    terms.rules = &rules_[domain];
    terms.socket_path = path;
    server.emplace(io_, mappings_, registry_, facts(), std::move(terms));
    EXPECT_TRUE(server->open().ok());
  }

  worker::DomainRules rules_[2];
  std::string other_path_ = path_ + ".other";
  std::optional<ControlServer> other_;
};

TEST_F(DomainMappingTest, ADomainHasItsOwnPlacesAtTheHelper) {
  std::vector<RawClient> clients;
  for (size_t i = 0; i <= MappingOpener::kRequestsOfUserMax; ++i) {
    attach(clients.emplace_back(path_));
    clients.back().send(mapping_request());
    run();
  }
  EXPECT_EQ(helper_.take().size(), MappingOpener::kRequestsOfUserMax);
  RawClient other(other_path_);
  attach(other);
  other.send(mapping_request());
  run();
  EXPECT_EQ(helper_.take().size(), 1u);
}

TEST_F(RegistrationTest, NeedsAContext) {
  RawClient client(path_);
  client.send_with(request(0, kRegionPage), {file_.get()});
  run();
  expect_goodbye(client,
                 "a request about memory without a context, or before the last one was answered");
}

constexpr uint64_t kSeveralGiB = uint64_t{4} << 30;

/// Ports that take their time with large memory: until the test opens the gate.
class SlowPorts {
 public:
  RegistryOptions terms() {
    RegistryOptions out = registry_options();
    out.regions.bytes_per_context_max = 2 * kSeveralGiB;
    out.ports.map = [this](const uint8_t*, uint64_t bytes, uint64_t) {
      if (bytes >= kSeveralGiB) is_open_.wait(false);
      ++mapped;
    };
    out.ports.unmap = [this](const uint8_t*, uint64_t) { --mapped; };
    return out;
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }
  std::atomic<int> mapped{0};

 private:
  std::atomic<bool> is_open_{false};
};

/// A sparse file: nothing here needs its pages.
class LargeRegistrationTest : private SlowPorts, public RegistrationTest {
 protected:
  LargeRegistrationTest() : RegistrationTest(terms()) {
    EXPECT_EQ(::ftruncate(file_.get(), kSeveralGiB), 0);
  }
  ~LargeRegistrationTest() override { open(); }

  using SlowPorts::mapped;
  using SlowPorts::open;
  bool has_told_workers() const { return !workers_.posted[0].empty(); }
  /// Until the other thread is done.
  bool deliver_until(auto is_done) {
    return run_until([&] {
      deliver();
      return is_done();
    });
  }
};

TEST_F(LargeRegistrationTest, OthersAttachAndRegisterMeanwhile) {
  RawClient slow(path_);
  attach(slow);
  slow.send_with(request(0, kSeveralGiB), {file_.get()});
  run();
  RawClient quick(path_);
  attach(quick);
  EXPECT_NE(register_pages(quick, 0, kRegionPage), 0u);
  EXPECT_FALSE(slow.receive().has_value()) << "its memory is not known to the ports yet";
  workers_.posted[0].clear();
  open();
  ASSERT_TRUE(deliver_until([&] { return has_told_workers(); }));
  EXPECT_EQ(workers_.posted[0].back().memory_bytes, kSeveralGiB);
  answer(ReplyKind::kRegionAdded);
  EXPECT_EQ(expect_message<channel::RegionReply>(slow, Control::kRegistered).error, 0);
}

TEST_F(LargeRegistrationTest, TheClientIsToldThatItIsUnderWay) {
  RawClient slow(path_);
  attach(slow);
  slow.send_with(request(0, kSeveralGiB), {file_.get()});
  run();
  std::optional<std::vector<uint8_t>> heard;
  ASSERT_TRUE(run_until([&] {
    if (!heard) heard = slow.receive();
    return heard.has_value();
  }));
  ASSERT_EQ(heard->size(), sizeof(channel::RegionReply));
  channel::RegionReply news;
  std::memcpy(static_cast<void*>(&news), heard->data(), sizeof news);
  EXPECT_EQ(news.header.type, Control::kRegionPending);
}

TEST_F(LargeRegistrationTest, AClientMayLeaveMeanwhile) {
  {
    RawClient slow(path_);
    attach(slow);
    slow.send_with(request(0, kSeveralGiB), {file_.get()});
    run();
  }
  run();
  workers_.answer_detaches();
  deliver();
  EXPECT_EQ(registry_.held_count(), 0u);
  EXPECT_EQ(registry_.regions().mapped_count(), 1u) << "the ports still map it";
  open();
  EXPECT_TRUE(deliver_until([&] { return registry_.regions().mapped_count() == 0; }));
  EXPECT_EQ(mapped, 0);
  EXPECT_FALSE(has_told_workers());
  expect_still_serving();
}

}  // namespace
}  // namespace lyre
