#include "daemon/control/context_registry.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
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

/// Those of this daemon's configuration: the one of the daemon before may have had others.
DomainLimits limits_of_domain(const RegistryOptions& options, uint32_t domain) {
  return domain < options.domains.size() ? options.domains[domain] : DomainLimits{};
}

/// What it counts for its user. A daemon of another release may have given it larger copy areas
/// than `copy_bytes_max`, which no configuration of this one provided for: its user could attach
/// nothing more.
uint64_t counted_bytes_of(uint64_t context_bytes, uint64_t copy_bytes, uint64_t copy_bytes_max) {
  return context_bytes - copy_bytes + std::min(copy_bytes, copy_bytes_max);
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

struct ContextRegistry::Context {
  uint32_t index = 0;
  uint64_t generation = 0;
  uint64_t user = UINT64_MAX;  ///< DomainRules::user_of()
  AttachTerms terms;           ///< as they were granted
  channel::ContextLayout layout{};
  uint64_t arena_bytes = 0;
  uint64_t copy_bytes = 0;
  bool is_lent_to = false;
  SharedMemory memory;
  OwnedFd wake_read;   ///< the client's
  OwnedFd wake_write;  ///< the workers'
  std::vector<OwnedFd> worker_rings;
  bool is_attached = false;
  bool is_arena_at_job = false;               ///< a thread maps or unmaps it for the ports
  bool is_unmapped = false;                   ///< the unmapping is done, or under way in a thread
  std::bitset<channel::kWorkersMax> held_by;  ///< workers that have not replied kDetached
  std::atomic<uint32_t> attached_workers{0};  ///< counted by the workers: see worker::Command

  const uint8_t* arena() const { return memory.data() + layout.arena_offset; }
  /// No worker knows it any more, or ever will.
  bool is_gone() const { return !is_attached && held_by.none(); }
  ContextGrant grant() const;
};

ContextGrant ContextRegistry::Context::grant() const {
  ContextGrant grant{.index = index,
                     .generation = generation,
                     .context_bytes = layout.total_bytes,
                     .is_lent_to = is_lent_to,
                     .memory_fd = memory.fd(),
                     .wake_fd = wake_read.get(),
                     .worker_rings = {}};
  for (const OwnedFd& ring : worker_rings) grant.worker_rings.push_back(ring.get());
  return grant;
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

/// `regions_` ends before the memory of contexts: it carries out what a thread has to unmap.
ContextRegistry::~ContextRegistry() {
  for (uint32_t i = 0; i < contexts_.size(); ++i) {
    if (contexts_[i] != nullptr && !contexts_[i]->is_unmapped) drop(i);
  }
}

/// No worker uses it any more. It counts for its user until the ports have let go of it.
void ContextRegistry::drop(uint32_t index) {
  Context& context = *contexts_[index];
  regions_.forget_context(index);
  context.is_unmapped = true;
  context.is_arena_at_job = !regions_.unmap_arena(index, context.arena(), context.arena_bytes);
  if (!context.is_arena_at_job) forget(index);
}

void ContextRegistry::forget(uint32_t index) {
  Context& context = *contexts_[index];
  const uint64_t bytes = context.memory.bytes();
  const uint64_t counted = counted_bytes_of(bytes, context.copy_bytes, copy_bytes_);
  OwnedFd file = context.memory.release();
  contexts_[index].reset();
  regions_.close_memory(index, std::move(file), bytes, counted);
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
    of_domain += context->terms.domain == terms.domain;
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
/// still held count, and memory that a thread has yet to free: clients that attach and leave in
/// turn would fill the system with it.
Status ContextRegistry::check_memory(const AttachTerms& terms, uint64_t arena_bytes) const {
  const uint64_t user = worker::DomainRules::user_of(terms.domain, terms.identity.uid);
  const uint64_t to_free = regions_.context_bytes_to_free(user);
  const auto layout =
      channel::ContextLayout::of(workers_.count(), arena_bytes, copy_bytes_, options_.page_bytes);
  uint64_t of_user = layout.total_bytes + to_free;
  for (const auto& context : contexts_) {
    if (context == nullptr || context->user != user) continue;
    of_user += counted_bytes_of(context->layout.total_bytes, context->copy_bytes, copy_bytes_);
  }
  if (of_user <= options_.arena_bytes_per_uid_max) return Ok{};
  return Error{EDQUOT, std::string("the arenas, rings and copies of clients of one uid have") +
                           (to_free > 0 ? ", with those that are still being freed," : "") +
                           " at most " + mib(options_.arena_bytes_per_uid_max) +
                           " together (clients.arena_bytes_per_uid_max)"};
}

Result<std::unique_ptr<ContextRegistry::Context>> ContextRegistry::make_context(
    const AttachTerms& terms, uint64_t arena_bytes) {
  auto context = std::make_unique<Context>();
  context->arena_bytes = arena_bytes;
  context->is_lent_to = is_lent_to(terms.identity);
  context->copy_bytes = copy_bytes_;
  context->layout = channel::ContextLayout::of(workers_.count(), context->arena_bytes,
                                               context->copy_bytes, options_.page_bytes);
  auto memory =
      SharedMemory::create("lyre-context", context->layout.total_bytes, SharedWith::kWriters);
  if (!memory.ok()) return memory.error();
  context->memory = std::move(*memory);
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
  --attached_count_;
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    workers_.unwatch(i, context.worker_rings[i].get());
  }
  if (context.is_arena_at_job) return;  // no worker knows it: on_arena_done() drops it
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

void ContextRegistry::write_handover(RegistryRecord record, record::Writer& out,
                                     std::vector<int>& descriptors) const {
  record::Writer records;
  std::vector<int> regions;
  record.next_generation = next_generation_;
  record.region_uses = regions_.uses();
  const auto is_left = [](const auto& c) { return c != nullptr && !c->is_gone(); };
  record.client_count =
      static_cast<uint32_t>(std::count_if(contexts_.begin(), contexts_.end(), is_left));
  record.region_count = regions_.write_handover(records, regions);
  out.add(record::Kind::kRegistry, kDaemonHandoverVersion,
          [&](record::FieldWriter& fields) { list_registry(fields, std::as_const(record)); });
  for (const auto& context : contexts_) {
    if (is_left(context)) write_client(*context, out, descriptors);
  }
  out.append(records);
  descriptors.insert(descriptors.end(), regions.begin(), regions.end());
}

void ContextRegistry::write_client(const Context& context, record::Writer& out,
                                   std::vector<int>& descriptors) const {
  const AttachTerms& terms = context.terms;
  const ClientRecord client{.context = context.index,
                            .generation = context.generation,
                            .pid = terms.identity.pid,
                            .uid = terms.identity.uid,
                            .gid = terms.identity.gid,
                            .label = terms.label,
                            .abi_version = terms.abi_version,
                            .domain = terms.domain == nullptr ? kNoDomain : terms.domain->index,
                            .registered_bytes_max = terms.registered_bytes_of_domain_max,
                            .arena_bytes = context.arena_bytes,
                            .copy_bytes = context.copy_bytes,
                            .page_bytes = options_.page_bytes,
                            .is_attached = context.is_attached,
                            .held_by = context.held_by.to_ullong()};
  out.add(record::Kind::kClient, kDaemonHandoverVersion,
          [&](record::FieldWriter& fields) { list_client(fields, client); });
  for (const int fd : {context.memory.fd(), context.wake_read.get(), context.wake_write.get()}) {
    descriptors.push_back(fd);
  }
  for (const OwnedFd& ring : context.worker_rings) descriptors.push_back(ring.get());
}

Status ContextRegistry::take_over(const RegistryRecord& record,
                                  std::span<const worker::DomainRules> domains, record::Reader& in,
                                  DescriptorQueue& descriptors) {
  first_generation_ = next_generation_ = record.next_generation;
  for (uint32_t i = 0; i < record.client_count; ++i) {
    if (Status status = take_over_client(domains, in, descriptors); !status.ok()) return status;
  }
  return regions_.take_over(record.region_count, record.region_uses, in, descriptors);
}

Status ContextRegistry::check_client(const ClientRecord& record,
                                     std::span<const worker::DomainRules> domains) const {
  if (record.context >= contexts_.size()) {
    return Error{EUSERS, "context " + std::to_string(record.context) +
                             " is in use, which is more than clients.contexts_max allows"};
  }
  if (!channel::kAbiVersions.has(record.abi_version)) {
    return Error{EPROTONOSUPPORT, "a client speaks version " + std::to_string(record.abi_version) +
                                      " of the channel, which this daemon does not"};
  }
  const uint32_t count = workers_.count();
  const uint64_t known = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  const bool has_domain = record.domain == kNoDomain || record.domain < domains.size();
  const bool is_held = record.is_attached ? record.held_by == 0 : record.held_by != 0;
  if (contexts_[record.context] == nullptr && has_domain && is_held &&
      (record.held_by & ~known) == 0 && record.page_bytes == options_.page_bytes &&
      record.generation < next_generation_) {
    return Ok{};
  }
  return Error{EPROTO, "the record of a client is not right"};
}

Status ContextRegistry::take_over_client(std::span<const worker::DomainRules> domains,
                                         record::Reader& in, DescriptorQueue& descriptors) {
  ClientRecord record;
  const auto list = [&](record::FieldReader& fields) { list_client(fields, record); };
  if (!in.take(record::Kind::kClient, kDaemonHandoverVersion, list)) {
    return Error{EPROTO, "the record of a client is not right"};
  }
  if (Status status = check_client(record, domains); !status.ok()) return status;
  const DomainLimits limits = limits_of_domain(options_, record.domain);
  auto made = std::make_unique<Context>();
  Context& context = *made;
  context.index = record.context;
  context.generation = record.generation;
  context.terms = {.identity = {.pid = record.pid, .uid = record.uid, .gid = record.gid},
                   .abi_version = record.abi_version,
                   .arena_bytes = record.arena_bytes,
                   .label = record.label,
                   .domain = record.domain == kNoDomain ? nullptr : &domains[record.domain],
                   .contexts_of_domain_max = limits.contexts_max,
                   .registered_bytes_of_domain_max = limits.registered_bytes_max};
  context.user = worker::DomainRules::user_of(context.terms.domain, record.uid);
  context.is_attached = record.is_attached;
  context.held_by = record.held_by;
  if (Status status = take_over_memory(record, context, descriptors); !status.ok()) return status;
  regions_.set_owner(context.index, context.user, limits.registered_bytes_max);
  const Status guarded = regions_.guard_arena(context.index, context.arena(), context.arena_bytes);
  if (!guarded.ok()) return guarded;
  if (record.is_attached) ++attached_count_;
  if (options_.ports.map) {
    options_.ports.map(context.arena(), context.arena_bytes, options_.page_bytes);
  }
  contexts_[record.context] = std::move(made);
  return Ok{};
}

/// Its rings are where they were: the client knows nothing of another daemon.
Status ContextRegistry::take_over_memory(const ClientRecord& record, Context& context,
                                         DescriptorQueue& descriptors) {
  context.arena_bytes = record.arena_bytes;
  context.copy_bytes = record.copy_bytes;
  context.layout = channel::ContextLayout::of(workers_.count(), record.arena_bytes,
                                              record.copy_bytes, options_.page_bytes);
  auto memory = SharedMemory::adopt(descriptors.take(), context.layout.total_bytes);
  if (!memory.ok()) return memory.error();
  context.memory = std::move(*memory);
  context.wake_read = descriptors.take();
  context.wake_write = descriptors.take();
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    context.worker_rings.push_back(descriptors.take());
    if (!context.worker_rings.back().is_open()) return Error{EPROTO, "a client's bell is missing"};
  }
  return record.is_attached ? watch_rings(context) : Status(Ok{});
}

std::vector<worker::Command> ContextRegistry::handover_commands(uint32_t worker) const {
  const auto has = [worker](const Context* context) {
    return context != nullptr && (context->is_attached || context->held_by.test(worker));
  };
  std::vector<worker::Command> commands;
  for (const auto& context : contexts_) {
    if (has(context.get())) commands.push_back(attach_command(*context, worker));
  }
  // The memory of a client that left stays until all workers have let go of the client.
  const auto knows = [&](uint32_t index) { return has(contexts_[index].get()); };
  regions_.append_commands(worker, knows, commands);
  return commands;
}

}  // namespace lyre
