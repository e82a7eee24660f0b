#include "daemon/control/context_registry.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <new>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/errno_error.h"
#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"

namespace lyre {
namespace {

std::string mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

struct ContextRegistry::Context {
  uint32_t index = 0;
  uint64_t generation = 0;
  uint64_t user = UINT64_MAX;  ///< DomainRules::user_of()
  const worker::DomainRules* domain = nullptr;
  channel::ContextLayout layout{};
  uint64_t arena_bytes = 0;
  uint64_t copy_bytes = 0;
  bool is_lent_to = false;
  SharedMemory memory;
  OwnedFd wake_read;   ///< the client's
  OwnedFd wake_write;  ///< the workers'
  std::vector<OwnedFd> worker_rings;
  bool is_attached = false;
  std::bitset<channel::kWorkersMax> held_by;  ///< workers that have not replied kDetached

  const uint8_t* arena() const { return memory.data() + layout.arena_offset; }
};

ContextRegistry::ContextRegistry(WorkerSet& workers, const RegistryOptions& options)
    : workers_(workers),
      options_(options),
      contexts_(options.contexts_max),
      waiting_(workers.count()),
      regions_(workers.count(), options.regions, options.ports,
               [this](uint32_t worker, const worker::Command& command) { post(worker, command); }),
      captures_(workers.count(), [this](uint32_t worker, const worker::Command& command) {
        post(worker, command);
      }) {
  LYRE_CHECK(options.contexts_max <= worker::kContextsMax);
  LYRE_CHECK(workers.count() >= 1 && workers.count() <= channel::kWorkersMax);
}

ContextRegistry::~ContextRegistry() {
  for (uint32_t i = 0; i < contexts_.size(); ++i) {
    if (contexts_[i] != nullptr) drop(i);
  }
}

void ContextRegistry::drop(uint32_t index) {
  const Context& context = *contexts_[index];
  if (options_.ports.unmap) options_.ports.unmap(context.arena(), context.arena_bytes);
  contexts_[index].reset();
}

uint32_t ContextRegistry::held_count() const {
  return static_cast<uint32_t>(std::count_if(contexts_.begin(), contexts_.end(),
                                             [](const auto& c) { return c != nullptr; }));
}

uint32_t ContextRegistry::attached_count_of(const worker::DomainRules& domain) const {
  return static_cast<uint32_t>(
      std::count_if(contexts_.begin(), contexts_.end(), [&](const auto& context) {
        return context != nullptr && context->is_attached && context->domain == &domain;
      }));
}

bool ContextRegistry::has_waiting() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const auto& waiting) { return !waiting.empty(); });
}

bool ContextRegistry::is_lent_to(const ClientIdentity& identity) const {
  if (options_.lend == Lend::kUid) return identity.uid == options_.lend_uid;
  return options_.lend == Lend::kDomain;
}

/// Contexts whose memory is still held count: it is what they cost.
Status ContextRegistry::check_contexts(const AttachTerms& terms) const {
  if (held_count() == contexts_.size()) {
    return Error{EUSERS, "all " + std::to_string(contexts_.size()) +
                             " contexts are in use (clients.contexts_max)"};
  }
  const uint64_t user = worker::DomainRules::user_of(terms.domain, terms.identity.uid);
  uint32_t of_user = 0;
  uint32_t of_domain = 0;
  for (const auto& context : contexts_) {
    if (context == nullptr) continue;
    of_user += context->user == user;
    of_domain += context->domain == terms.domain;
  }
  if (of_domain >= terms.contexts_of_domain_max) {
    return Error{EUSERS, "the domain has " + std::to_string(of_domain) +
                             " contexts, as many as it may have (domain.contexts_max)"};
  }
  if (of_user < options_.contexts_per_uid_max) return Ok{};
  const std::string who = user == terms.identity.uid ? "uid " + std::to_string(user) : "the domain";
  return Error{EUSERS, who + " has " + std::to_string(of_user) +
                           " contexts, as many as one uid may have "
                           "(clients.contexts_per_uid_max)"};
}

Result<ContextGrant> ContextRegistry::attach(const AttachTerms& terms) {
  if (Status room = check_contexts(terms); !room.ok()) return room.error();
  auto made = make_context(terms);
  if (!made.ok()) return made.error();
  const auto free = std::find(contexts_.begin(), contexts_.end(), nullptr);
  Context& context = **made;
  context.index = static_cast<uint32_t>(free - contexts_.begin());
  context.user = worker::DomainRules::user_of(terms.domain, terms.identity.uid);
  context.domain = terms.domain;
  regions_.set_owner(context.index, context.user, terms.registered_bytes_of_domain_max);
  context.generation = next_generation_++;
  fill_header(context, terms);
  *free = std::move(*made);

  context.is_attached = true;
  ++attached_count_;
  if (options_.ports.map) {
    options_.ports.map(context.arena(), context.arena_bytes, options_.page_bytes);
  }
  post_attach(context, terms);

  ContextGrant grant{.index = context.index,
                     .generation = context.generation,
                     .context_bytes = context.layout.total_bytes,
                     .is_lent_to = context.is_lent_to,
                     .memory_fd = context.memory.fd(),
                     .wake_fd = context.wake_read.get(),
                     .worker_rings = {}};
  for (const OwnedFd& ring : context.worker_rings) grant.worker_rings.push_back(ring.get());
  return grant;
}

Result<std::unique_ptr<ContextRegistry::Context>> ContextRegistry::make_context(
    const AttachTerms& terms) {
  const uint64_t by_default = std::min(channel::kArenaBytesDefault, options_.arena_bytes_max);
  const uint64_t arena_bytes = terms.arena_bytes == 0 ? by_default : terms.arena_bytes;
  if (arena_bytes > options_.arena_bytes_max) {
    return Error{EINVAL, "an arena has at most " + mib(options_.arena_bytes_max) +
                             " (clients.arena_bytes_max)"};
  }
  auto context = std::make_unique<Context>();
  context->arena_bytes =
      whole_pages(std::max(arena_bytes, options_.page_bytes), options_.page_bytes);
  context->is_lent_to = is_lent_to(terms.identity);
  context->copy_bytes = uint64_t{workers_.count()} * kCopyBytesPerWorker;
  context->layout = channel::ContextLayout::of(workers_.count(), context->arena_bytes,
                                               context->copy_bytes, options_.page_bytes);
  auto memory =
      SharedMemory::create("lyre-context", context->layout.total_bytes, SharedWith::kWriters);
  if (!memory.ok()) return memory.error();
  context->memory = std::move(*memory);
  if (Status rings = make_rings(*context); !rings.ok()) return rings.error();
  return context;
}

Status ContextRegistry::make_rings(Context& context) {
  // Workers wake the client through a pipe: each end has its own O_NONBLOCK. A client could clear
  // that of a shared eventfd and fill it, and the worker would block.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return errno_error("no pipe");
  context.wake_read.reset(ends[0]);
  context.wake_write.reset(ends[1]);
  // Each client has an eventfd of its own at each worker, so that none can disable another's.
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    OwnedFd ring(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!ring.is_open()) return errno_error("no eventfd");
    context.worker_rings.push_back(std::move(ring));
  }
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    Status status = workers_.watch(i, context.worker_rings[i].get());
    if (status.ok()) continue;
    while (i-- > 0) workers_.unwatch(i, context.worker_rings[i].get());
    return status;
  }
  return Ok{};
}

void ContextRegistry::fill_header(Context& context, const AttachTerms& terms) const {
  auto* header = new (context.memory.data()) channel::ContextHeader{};
  header->magic = channel::kContextMagic;
  header->abi_version = terms.abi_version;
  header->worker_count = workers_.count();
  header->generation = context.generation;
  header->total_bytes = context.layout.total_bytes;
  header->rings_offset = context.layout.rings_offset;
  header->arena_offset = context.layout.arena_offset;
  header->arena_bytes = context.arena_bytes;
  header->copy_offset = context.layout.copy_offset;
  header->copy_bytes = context.copy_bytes;
}

void ContextRegistry::post_attach(const Context& context, const AttachTerms& terms) {
  worker::Command command;
  command.kind = worker::Command::Kind::kAttach;
  command.context = context.index;
  command.generation = context.generation;
  command.memory = context.memory.data();
  command.memory_bytes = context.layout.total_bytes;
  command.page_bytes = options_.page_bytes;
  command.arena_offset = context.layout.arena_offset;
  command.arena_bytes = context.arena_bytes;
  command.copy_bytes = context.copy_bytes / workers_.count();
  command.is_lent = context.is_lent_to;
  command.wake_fd = context.wake_write.get();
  command.pid = terms.identity.pid;
  command.uid = terms.identity.uid;
  command.domain = terms.domain;
  terms.label.copy(command.label.data(), command.label.size() - 1);
  auto* rings =
      reinterpret_cast<channel::RingPair*>(context.memory.data() + context.layout.rings_offset);
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    command.rings = rings + i;
    command.copy_offset = context.layout.copy_offset + i * command.copy_bytes;
    post(i, command);
  }
}

/// Called by the client's connection, once, when it ends.
void ContextRegistry::detach(uint32_t index, bool resets_sessions) {
  LYRE_CHECK(index < contexts_.size() && contexts_[index] != nullptr);
  Context& context = *contexts_[index];
  LYRE_CHECK(context.is_attached);
  context.is_attached = false;
  --attached_count_;
  worker::Command command;
  command.kind = worker::Command::Kind::kDetach;
  command.context = index;
  command.resets_sessions = resets_sessions;
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    context.held_by.set(i);
    workers_.unwatch(i, context.worker_rings[i].get());
  }
  for (uint32_t i = 0; i < workers_.count(); ++i) post(i, command);
}

void ContextRegistry::post(uint32_t worker, const worker::Command& command) {
  // In order: a detach must not come before its attach.
  if (!waiting_[worker].empty() || !workers_.try_post(worker, command)) {
    waiting_[worker].push_back(command);
  }
}

void ContextRegistry::post_waiting() {
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    auto& waiting = waiting_[i];
    while (!waiting.empty() && workers_.try_post(i, waiting.front())) waiting.pop_front();
  }
}

void ContextRegistry::poll(std::vector<Expulsion>& out) {
  post_waiting();
  worker::Reply reply;
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    while (workers_.try_take(i, reply)) on_reply(i, reply, out);
  }
  regions_.poll();
  uint32_t robbed = regions_.take_faulted_context();
  for (; robbed != UINT32_MAX; robbed = regions_.take_faulted_context()) {
    expel(robbed, "pages of its registered memory are gone", out);
  }
}

void ContextRegistry::on_reply(uint32_t worker, const worker::Reply& reply,
                               std::vector<Expulsion>& out) {
  using ReplyKind = worker::Reply::Kind;
  switch (reply.kind) {
    case ReplyKind::kNone:
      return;
    case ReplyKind::kShutDown:
      ++shut_down_count_;
      return;
    case ReplyKind::kDetached:
      on_detached(worker, reply.context);
      return;
    case ReplyKind::kExpelled:
      return expel(reply.context, reply.reason, out);
    case ReplyKind::kRegionAdded:
    case ReplyKind::kRegionRefused:
    case ReplyKind::kRegionRemoved:
      return regions_.on_reply(worker, reply);
    case ReplyKind::kCaptureEnded:
      return captures_.on_reply(worker, reply);
  }
}

/// Once for each context, also when it is detached already or two workers expel it.
void ContextRegistry::expel(uint32_t index, const char* reason, std::vector<Expulsion>& out) {
  if (index >= contexts_.size() || contexts_[index] == nullptr) return;
  if (contexts_[index]->is_attached) out.push_back({index, reason});
}

/// Each worker replies to kDetach once. The index is used again when all have replied.
void ContextRegistry::on_detached(uint32_t worker, uint32_t index) {
  LYRE_CHECK(index < contexts_.size() && contexts_[index] != nullptr);
  Context& context = *contexts_[index];
  LYRE_CHECK(!context.is_attached && context.held_by.test(worker));
  context.held_by.reset(worker);
  if (context.held_by.any()) return;
  regions_.forget_context(index);
  drop(index);
}

void ContextRegistry::shut_down() {
  worker::Command command;
  command.kind = worker::Command::Kind::kShutdown;
  for (uint32_t i = 0; i < workers_.count(); ++i) post(i, command);
}

}  // namespace lyre
