#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "stack/base/check.h"
#include "stack/base/ip_address.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"
#include "stack/worker/worker.h"

namespace lyre::test {

/// One client context of one worker, driven directly: the shared memory, and the client's ends of
/// the rings. Thread: the worker's.
class ChannelClient {
 public:
  static constexpr uint64_t kArenaBytes = 1 << 20;
  static constexpr uint64_t kCopyBytes = 1 << 18;

  ChannelClient(worker::Worker& worker, uint32_t context, bool is_lent = true,
                uint64_t arena_bytes = kArenaBytes, uint64_t copy_bytes = kCopyBytes,
                uint32_t uid = 0, const worker::DomainRules* domain = nullptr)
      : worker_(&worker),
        context_(context),
        layout_(channel::ContextLayout::of(1, arena_bytes, copy_bytes)),
        memory_(new (std::align_val_t{4096}) uint8_t[layout_.total_bytes]()) {
    rings_ = reinterpret_cast<channel::RingPair*>(memory_.get() + layout_.rings_offset);
    submissions_ = {&rings_->submission_indices, rings_->submissions};
    completions_ = {&rings_->completion_indices, rings_->completions};
    worker::Command& command = attach_;
    command.kind = worker::Command::Kind::kAttach;
    command.context = context;
    command.memory = memory_.get();
    command.memory_bytes = layout_.total_bytes;
    command.arena_offset = layout_.arena_offset;
    command.arena_bytes = arena_bytes;
    command.copy_offset = layout_.copy_offset;
    command.copy_bytes = copy_bytes;
    command.is_lent = is_lent;
    command.domain = domain;
    command.rings = rings_;
    command.uid = uid;
    LYRE_CHECK(worker_->inbox().try_post(command));
  }
  /// Asks the worker to detach; the memory must live until it answers kDetached.
  void detach(bool resets_sessions = false) {
    LYRE_CHECK(worker_->inbox().try_post({.kind = worker::Command::Kind::kDetach,
                                          .context = context_,
                                          .resets_sessions = resets_sessions}));
  }

  /// Registers memory, as the control thread does for a client; the worker answers with a reply.
  void add_region(uint32_t name, uint8_t* memory, uint64_t bytes) {
    regions_.push_back({.kind = worker::Command::Kind::kAddRegion,
                        .context = context_,
                        .region = name,
                        .memory = memory,
                        .memory_bytes = bytes});
    LYRE_CHECK(worker_->inbox().try_post(regions_.back()));
  }
  void remove_region(uint32_t name) {
    LYRE_CHECK(worker_->inbox().try_post(
        {.kind = worker::Command::Kind::kRemoveRegion, .context = context_, .region = name}));
  }

  /// Another worker goes on in the place of this client's.
  void move_to(worker::Worker& worker) { worker_ = &worker; }
  /// Appends what that worker is told of the client's memory (Worker::take_over()).
  void describe_memory(std::vector<worker::Command>& out) const {
    out.push_back(attach_);
    out.insert(out.end(), regions_.begin(), regions_.end());
  }

  uint8_t* arena() { return memory_.get() + layout_.arena_offset; }
  uint8_t* memory() { return memory_.get(); }
  channel::RingPair& rings() { return *rings_; }

  bool submit(const channel::Submission& entry) {
    if (submissions_.room() == 0) return false;
    submissions_.push(entry);
    submissions_.publish();
    return true;
  }
  bool connect(const Endpoint& remote, uint64_t cookie, const Endpoint& local = {}) {
    return submit(open(channel::Op::kConnect, local, remote, cookie));
  }
  uint32_t submission_room() { return submissions_.room(); }
  bool listen(uint16_t port, uint64_t cookie, uint16_t backlog = 16) {
    return listen_at({.port = port}, cookie, backlog);
  }
  bool listen_at(const Endpoint& local, uint64_t cookie, uint16_t backlog = 16) {
    channel::Submission entry = open(channel::Op::kListen, local, {}, cookie);
    entry.backlog = backlog;
    return submit(entry);
  }
  bool send(channel::SessionName session, uint64_t offset, uint32_t bytes, uint32_t region = 0) {
    channel::Submission entry{.op = channel::Op::kSend, .session = session};
    entry.body.send = {.region = region, .bytes = bytes, .offset = offset};
    return submit(entry);
  }
  bool release(uint32_t slot) {
    channel::Submission entry{.op = channel::Op::kRelease, .count = 1};
    entry.body.release.slots[0] = slot;
    return submit(entry);
  }
  bool set_option(channel::SessionName session, channel::SessionOption name, uint32_t value) {
    channel::Submission entry{.op = channel::Op::kSetOption, .session = session};
    entry.body.option = {.name = name, .value = value};
    return submit(entry);
  }
  bool tell(channel::Op op, channel::SessionName session) {
    return submit({.op = op, .session = session});
  }
  /// The next completion; kNone when there is none.
  channel::Completion next() {
    if (completions_.available() == 0) return {};
    const channel::Completion entry = completions_.pop();
    completions_.publish();
    return entry;
  }

 private:
  static channel::Submission open(channel::Op op, const Endpoint& local, const Endpoint& remote,
                                  uint64_t cookie) {
    channel::Submission entry{.op = op};
    entry.body.open.cookie = cookie;
    std::memcpy(entry.body.open.local_address, local.address.bytes.data(), 16);
    std::memcpy(entry.body.open.remote_address, remote.address.bytes.data(), 16);
    entry.body.open.local_port = local.port;
    entry.body.open.remote_port = remote.port;
    return entry;
  }
  struct AlignedDelete {
    void operator()(uint8_t* memory) const { operator delete[](memory, std::align_val_t{4096}); }
  };

  worker::Worker* worker_;
  worker::Command attach_;
  std::vector<worker::Command> regions_;
  uint32_t context_;
  channel::ContextLayout layout_;
  std::unique_ptr<uint8_t[], AlignedDelete> memory_;
  channel::RingPair* rings_ = nullptr;
  channel::SubmissionProducer submissions_;
  channel::CompletionConsumer completions_;
};

}  // namespace lyre::test
