#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "daemon/control/context_registry.h"
#include "daemon/control/registered_context.h"
#include "daemon/protocol/handover_records.h"
#include "stack/channel/ring.h"

/// What a process leaves of its contexts to the one that goes on with them.
namespace lyre {
namespace {

/// Those of this daemon's configuration: the one of the daemon before may have had others.
DomainLimits limits_of_domain(const RegistryOptions& options, uint32_t domain) {
  return domain < options.domains.size() ? options.domains[domain] : DomainLimits{};
}

}  // namespace

void ContextRegistry::write_handover(RegistryRecord record, record::Writer& out,
                                     std::vector<int>& descriptors) const {
  record::Writer records;
  std::vector<int> memories;
  record.next_generation = next_generation_;
  record.region_uses = regions_.uses();
  const auto has_workers = [](const auto& c) { return c != nullptr && !c->is_gone(); };
  record.client_count =
      static_cast<uint32_t>(std::count_if(contexts_.begin(), contexts_.end(), has_workers));
  // Also of contexts whose memory a thread still unmaps for the ports. With those that have workers
  // they are `contexts_max` at most: check_contexts() counts both.
  left_.write_handover(records, memories);
  record.left_count = static_cast<uint32_t>(left_.count());
  for (const auto& context : contexts_) {
    if (context == nullptr || !context->is_gone() || !context->can_be_taken_back) continue;
    LeftMemory::write_one(context->left_facts(copy_bytes_), context->memory.fd(), records,
                          memories);
    ++record.left_count;
  }
  record.region_count = regions_.write_handover(records, memories);
  out.add(record::Kind::kRegistry, kDaemonHandoverVersion,
          [&](record::FieldWriter& fields) { list_registry(fields, std::as_const(record)); });
  for (const auto& context : contexts_) {
    if (has_workers(context)) write_client(*context, out, descriptors);
  }
  out.append(records);
  descriptors.insert(descriptors.end(), memories.begin(), memories.end());
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
  if (Status left = left_.take_over(record.left_count, domains, in, descriptors); !left.ok()) {
    return left;
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
  context.can_be_taken_back = can_be_taken_back(context.memory.fd());
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
