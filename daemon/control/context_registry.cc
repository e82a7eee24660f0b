#include "daemon/control/context_registry.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/errno_error.h"
#include "daemon/control/registered_context.h"
#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"

namespace lyre {
namespace {

/// What it counts for its user. A daemon of another release may have given it larger copy areas
/// than `copy_bytes_max`, which no configuration of this one provided for: its user could attach
/// nothing more.
uint64_t counted_bytes_of(uint64_t context_bytes, uint64_t copy_bytes, uint64_t copy_bytes_max) {
  return context_bytes - copy_bytes + std::min(copy_bytes, copy_bytes_max);
}

/// Whose contexts still count.
constexpr const char* kStillOpen = " whose memory a process still has open";

void free_left(RegionRegistry& regions, LeftMemory::Entry left) {
  const LeftMemory::Facts& facts = left.facts;
  regions.free_memory(facts.owner, std::move(left.file), facts.bytes, facts.counted_bytes);
}

std::string mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Result<uint64_t> arena_bytes_for(uint64_t asked, const RegistryOptions& options) {
  const uint64_t by_default = std::min(channel::kArenaBytesDefault, options.arena_bytes_max);
  const uint64_t bytes = asked == 0 ? by_default : asked;
  if (bytes > options.arena_bytes_max) {
    return Error{EINVAL, "an arena has at most " + mib(options.arena_bytes_max) +
                             " (clients.arena_bytes_max)"};
  }
  return whole_pages(std::max(bytes, options.page_bytes), options.page_bytes);
}

}  // namespace

ContextGrant ContextRegistry::Context::grant() const {
  ContextGrant grant{.index = index,
                     .generation = generation,
                     .context_bytes = layout.total_bytes,
                     .is_lent_to = is_lent_to,
                     .memory_fd = client_memory.get(),
                     .wake_fd = wake_read.get(),
                     .worker_rings = {}};
  for (const OwnedFd& ring : worker_rings) grant.worker_rings.push_back(ring.get());
  return grant;
}

LeftMemory::Facts ContextRegistry::Context::left_facts(uint64_t copy_bytes_max) const {
  const uint64_t bytes = memory.bytes();
  return {.owner = {.user = user, .client = index},
          .domain = terms.domain,
          .bytes = bytes,
          .counted_bytes = counted_bytes_of(bytes, copy_bytes, copy_bytes_max)};
}

ContextRegistry::ContextRegistry(WorkerSet& workers, const RegistryOptions& options)
    : workers_(workers),
      copy_bytes_(workers.count() * copy_bytes_per_worker(workers.count())),
      options_(options),
      contexts_(options.contexts_max),
      waiting_(workers.count()),
      regions_(
          workers.count(), options.regions, options.ports,
          [this](uint32_t worker, const worker::Command& command) { post(worker, command); },
          [this](uint32_t context) { on_arena_done(context); }),
      captures_(workers.count(), [this](uint32_t worker, const worker::Command& command) {
        post(worker, command);
      }) {
  // At the start: the configuration was checked for both.
  LYRE_CHECK(options.contexts_max <= worker::kContextsMax);
  LYRE_CHECK(workers.count() >= 1 && workers.count() <= channel::kWorkersMax);
}

/// `regions_` ends before the memory of contexts: it carries out what a thread has to unmap. Pages
/// are not freed: a successor may have the same open of the file, which no lease tells.
ContextRegistry::~ContextRegistry() {
  for (uint32_t i = 0; i < contexts_.size(); ++i) {
    if (contexts_[i] == nullptr) continue;
    contexts_[i]->can_be_taken_back = false;
    if (!contexts_[i]->is_unmapped) drop(i);
  }
}

/// No worker uses it any more. It counts for its user until the ports and the client have let go of
/// it.
void ContextRegistry::drop(uint32_t index) {
  Context& context = *contexts_[index];
  regions_.forget_context(index);
  context.is_unmapped = true;
  context.is_arena_at_job = !regions_.unmap_arena(index, context.arena(), context.arena_bytes);
  if (!context.is_arena_at_job) forget(index);
}

/// A client reads completions and what it received also after the hang-up, and a hostile one keeps
/// the descriptor: the pages stay, and count, while it has the memory open.
void ContextRegistry::forget(uint32_t index) {
  Context& context = *contexts_[index];
  LeftMemory::Entry left{.facts = context.left_facts(copy_bytes_),
                         .file = context.memory.release()};
  const bool can_be_kept = context.can_be_taken_back;
  contexts_[index].reset();
  if (!can_be_kept) {
    return regions_.close_memory(index, std::move(left.file), left.facts.bytes,
                                 left.facts.counted_bytes);
  }
  if (!take_back(left.file.get()) && errno == EAGAIN) return left_.add(std::move(left));
  free_left(regions_, std::move(left));
}

uint32_t ContextRegistry::held_count() const {
  return static_cast<uint32_t>(std::count_if(contexts_.begin(), contexts_.end(),
                                             [](const auto& c) { return c != nullptr; }));
}

uint32_t ContextRegistry::attached_count_of(const worker::DomainRules& domain) const {
  return static_cast<uint32_t>(
      std::count_if(contexts_.begin(), contexts_.end(), [&](const auto& context) {
        return context != nullptr && context->is_attached && context->terms.domain == &domain;
      }));
}

uint64_t ContextRegistry::attached_total(const worker::DomainRules& domain) const {
  const auto found = attached_totals_.find(&domain);
  return found == attached_totals_.end() ? 0 : found->second;
}

bool ContextRegistry::has_waiting() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const auto& waiting) { return !waiting.empty(); });
}

/// Contexts whose memory is still held, here or by their clients, count: it is what they cost.
Status ContextRegistry::check_contexts(const AttachTerms& terms) const {
  if (held_count() + left_.count() >= contexts_.size()) {
    return Error{EUSERS, "all " + std::to_string(contexts_.size()) +
                             " contexts are in use (clients.contexts_max)"};
  }
  const uint64_t user = worker::DomainRules::user_of(terms.domain, terms.identity.uid);
  const size_t of_user_left = left_.count_of(user);
  size_t of_user = of_user_left;
  size_t of_domain = left_.count_of_domain(terms.domain);
  for (const auto& context : contexts_) {
    if (context == nullptr) continue;
    of_user += context->user == user;
    of_domain += context->terms.domain == terms.domain;
  }
  if (of_domain >= terms.contexts_of_domain_max) {
    return Error{EUSERS, "the domain has " + std::to_string(of_domain) +
                             " contexts, as many as it may have (domain.contexts_max)"};
  }
  if (of_user < options_.contexts_per_uid_max) return Ok{};
  const std::string who = user == terms.identity.uid ? "uid " + std::to_string(user) : "the domain";
  return Error{EUSERS, who + " has " + std::to_string(of_user) + " contexts" +
                           (of_user_left > 0 ? std::string(", with ended ones") + kStillOpen : "") +
                           ", as many as one uid may have "
                           "(clients.contexts_per_uid_max)"};
}

Result<ContextGrant> ContextRegistry::attach(const AttachTerms& terms) {
  // A process that closes a context and opens another one has closed that memory meanwhile.
  for (LeftMemory::Entry& left : left_.take_free()) free_left(regions_, std::move(left));
  if (Status room = check_contexts(terms); !room.ok()) return room.error();
  const auto arena_bytes = arena_bytes_for(terms.arena_bytes, options_);
  if (!arena_bytes.ok()) return arena_bytes.error();
  if (Status share = check_memory(terms, arena_bytes.value()); !share.ok()) return share.error();
  if (refuses_slow_arenas_ && !regions_.is_arena_mapped_at_once(arena_bytes.value())) {
    return Error{EAGAIN, "the daemon is being replaced, and has no time to map the arena"};
  }
  auto made = make_context(terms, arena_bytes.value());
  if (!made.ok()) return made.error();
  const auto free = std::find(contexts_.begin(), contexts_.end(), nullptr);
  Context& context = **made;
  context.index = static_cast<uint32_t>(free - contexts_.begin());
  context.user = worker::DomainRules::user_of(terms.domain, terms.identity.uid);
  context.terms = terms;
  regions_.set_owner(context.index, context.user, terms.registered_bytes_of_domain_max);
  Status guarded = regions_.guard_arena(context.index, context.arena(), context.arena_bytes);
  if (!guarded.ok()) return guarded.error();
  context.generation = next_generation_++;
  ++attached_totals_[terms.domain];
  fill_header(context);
  *free = std::move(*made);

  context.is_attached = true;
  ++attached_count_;
  context.is_arena_at_job =
      !regions_.map_arena(context.index, context.arena(), context.arena_bytes, options_.page_bytes);
  if (!context.is_arena_at_job) tell_workers(context);
  return context.grant();
}

/// The client may use its rings before the workers know of them, who look at them then.
void ContextRegistry::tell_workers(Context& context) {
  for (uint32_t i = 0; i < workers_.count(); ++i) post(i, attach_command(context, i));
}

void ContextRegistry::on_arena_done(uint32_t index) {
  Context& context = *contexts_[index];
  context.is_arena_at_job = false;
  if (context.is_unmapped) return forget(index);
  if (!context.is_attached) return drop(index);  // its client left while it was mapped
  tell_workers(context);
}

/// The whole memory of a context counts: rings have their pages from the beginning, and the copy
/// area gets them when a worker writes there, so both are the daemon's. Contexts whose memory is
/// still held count, memory that a client keeps when it has left, and memory that a thread has yet
/// to free: clients that attach and leave in turn would fill the system with it.
Status ContextRegistry::check_memory(const AttachTerms& terms, uint64_t arena_bytes) const {
  const uint64_t user = worker::DomainRules::user_of(terms.domain, terms.identity.uid);
  const uint64_t to_free = regions_.context_bytes_to_free(user);
  const auto layout =
      channel::ContextLayout::of(workers_.count(), arena_bytes, copy_bytes_, options_.page_bytes);
  const uint64_t left = left_.bytes_of(user);
  uint64_t of_user = layout.total_bytes + to_free + left;
  for (const auto& context : contexts_) {
    if (context == nullptr || context->user != user) continue;
    of_user += counted_bytes_of(context->layout.total_bytes, context->copy_bytes, copy_bytes_);
  }
  if (of_user <= options_.arena_bytes_per_uid_max) return Ok{};
  return Error{EDQUOT, std::string("the arenas, rings and copies of clients of one uid have") +
                           (left > 0 ? std::string(", with those of ended ones") + kStillOpen + ","
                            : to_free > 0 ? ", with those that are still being freed,"
                                          : "") +
                           " at most " + mib(options_.arena_bytes_per_uid_max) +
                           " together (clients.arena_bytes_per_uid_max)"};
}

Result<std::unique_ptr<ContextRegistry::Context>> ContextRegistry::make_context(
    const AttachTerms& terms, uint64_t arena_bytes) {
  auto context = std::make_unique<Context>();
  context->arena_bytes = arena_bytes;
  context->is_lent_to = options_.lend == Lend::kUid ? terms.identity.uid == options_.lend_uid
                                                    : options_.lend == Lend::kDomain;
  context->copy_bytes = copy_bytes_;
  context->layout = channel::ContextLayout::of(workers_.count(), context->arena_bytes,
                                               context->copy_bytes, options_.page_bytes);
  auto memory =
      SharedMemory::create("lyre-context", context->layout.total_bytes, SharedWith::kWriters);
  if (!memory.ok()) return memory.error();
  context->memory = std::move(*memory);
  context->can_be_taken_back = can_be_taken_back(context->memory.fd());
  auto client_memory = reopen(context->memory.fd());
  if (!client_memory.ok()) return client_memory.error();
  context->client_memory = std::move(*client_memory);
  if (Status allocated = allocate_written(*context); !allocated.ok()) return allocated.error();
  if (Status rings = make_rings(*context); !rings.ok()) return rings.error();
  return context;
}

/// What workers write has its pages now: later the system could refuse one, which ends the daemon.
/// A system that does not account strictly refuses none, so there the copy area costs nothing until
/// it is touched.
Status ContextRegistry::allocate_written(const Context& context) const {
  const SharedMemory& memory = context.memory;
  Status status = memory.allocate(0, context.layout.arena_offset);
  if (!status.ok() || !options_.allocates_copy_areas || context.copy_bytes == 0) return status;
  return memory.allocate(context.layout.copy_offset, context.copy_bytes);
}

Status ContextRegistry::make_rings(Context& context) {
  // Workers wake the client through a socket, whose ends have an O_NONBLOCK each and no lock that a
  // client can hold. A client could clear that of a shared eventfd and fill it; and it could hold a
  // pipe's lock in splice(), for which a writer waits even with O_NONBLOCK.
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return errno_error("no socket");
  }
  context.wake_read.reset(ends[0]);
  context.wake_write.reset(ends[1]);
  // The client cannot send: descriptors in its messages would be this process's to close.
  if (::shutdown(ends[1], SHUT_RD) != 0) return errno_error("no socket");
  // Each client has an eventfd of its own at each worker, so that none can disable another's.
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    OwnedFd ring(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!ring.is_open()) return errno_error("no eventfd");
    context.worker_rings.push_back(std::move(ring));
  }
  return watch_rings(context);
}

Status ContextRegistry::watch_rings(const Context& context) {
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    Status status = workers_.watch(i, context.worker_rings[i].get());
    if (status.ok()) continue;
    while (i-- > 0) workers_.unwatch(i, context.worker_rings[i].get());
    return status;
  }
  return Ok{};
}

void ContextRegistry::fill_header(Context& context) const {
  auto* header = new (context.memory.data()) channel::ContextHeader{};
  header->magic = channel::kContextMagic;
  header->abi_version = context.terms.abi_version;
  header->worker_count = workers_.count();
  header->generation = context.generation;
  header->total_bytes = context.layout.total_bytes;
  header->rings_offset = context.layout.rings_offset;
  header->arena_offset = context.layout.arena_offset;
  header->arena_bytes = context.arena_bytes;
  header->copy_offset = context.layout.copy_offset;
  header->copy_bytes = context.copy_bytes;
}

/// What the worker shows of them. The tests of check_contexts(), check_memory() and of the regions
/// count.
worker::ClientLimits ContextRegistry::limits_of(const AttachTerms& terms) const {
  const RegionLimits& regions = options_.regions;
  return {.contexts_of_user = std::min(options_.contexts_per_uid_max, terms.contexts_of_domain_max),
          .arena_bytes_of_user = options_.arena_bytes_per_uid_max,
          .registered_bytes = regions.bytes_per_context_max,
          .registered_bytes_of_user =
              std::min(regions.bytes_per_uid_max, terms.registered_bytes_of_domain_max),
          .regions = channel::kRegionsPerContextMax,
          .regions_of_user = regions.regions_per_uid_max};
}

worker::Command ContextRegistry::attach_command(Context& context, uint32_t worker) const {
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
  command.copy_offset = context.layout.copy_offset + worker * command.copy_bytes;
  command.is_lent = context.is_lent_to;
  command.wake_fd = context.wake_write.get();
  command.attached_workers = &context.attached_workers;
  command.pid = context.terms.identity.pid;
  command.uid = context.terms.identity.uid;
  command.domain = context.terms.domain;
  command.limits = limits_of(context.terms);
  context.terms.label.copy(command.label.data(), command.label.size() - 1);
  command.rings =
      reinterpret_cast<channel::RingPair*>(context.memory.data() + context.layout.rings_offset) +
      worker;
  return command;
}

/// Called by the client's connection, once, when it ends.
void ContextRegistry::detach(uint32_t index, bool resets_sessions) {
  LYRE_CHECK(index < contexts_.size() && contexts_[index] != nullptr);
  Context& context = *contexts_[index];
  LYRE_CHECK(context.is_attached);
  context.is_attached = false;
  context.client_memory.reset();
  --attached_count_;
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    workers_.unwatch(i, context.worker_rings[i].get());
  }
  // No worker knows it: on_arena_done() drops it.
  if (context.is_arena_at_job) return detached_.push_back(index);
  worker::Command command;
  command.kind = worker::Command::Kind::kDetach;
  command.context = index;
  command.resets_sessions = resets_sessions;
  for (uint32_t i = 0; i < workers_.count(); ++i) context.held_by.set(i);
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
  for (LeftMemory::Entry& left : left_.take_free()) free_left(regions_, std::move(left));
  uint32_t robbed = regions_.take_faulted_context();
  for (; robbed != UINT32_MAX; robbed = regions_.take_faulted_context()) {
    expel(robbed, "pages of its memory are gone, or the system has none for them", out);
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
  detached_.push_back(index);
  drop(index);
}

bool ContextRegistry::is_attached(uint32_t context) const {
  return context < contexts_.size() && contexts_[context] != nullptr &&
         contexts_[context]->is_attached;
}

void ContextRegistry::shut_down() {
  worker::Command command;
  command.kind = worker::Command::Kind::kShutdown;
  for (uint32_t i = 0; i < workers_.count(); ++i) post(i, command);
}

}  // namespace lyre
