#include "libclient/context_memory.h"

#include <sys/mman.h>

#include "libclient/arena.h"
#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"

using lyre::channel::AttachReply;
using lyre::channel::ContextHeader;
using lyre::channel::RingPair;
using lyre::channel::WorkerDoorbell;

namespace lyre::client {

int bad_attach(const char* what) {
  return fail(LYRE_E_DAEMON, "the daemon's attach reply is wrong: %s", what);
}

int ContextMemory::map(const AttachReply& reply, const std::vector<UniqueFd>& descriptors) {
  if (!memory_.map(descriptors[kMemoryDescriptor].get(), reply.context_bytes,
                   PROT_READ | PROT_WRITE)) {
    return fail_errno(LYRE_E_NORESOURCES, "cannot map the context's memory");
  }
  if (!doorbells_.map(descriptors[kDoorbellDescriptor].get(),
                      reply.worker_count * sizeof(WorkerDoorbell), PROT_READ)) {
    return fail_errno(LYRE_E_NORESOURCES, "cannot map the doorbells");
  }
  if (const int code = check_layout(reply); code != 0) return code;
  return map_pools(reply, descriptors);
}

int ContextMemory::check_layout(const AttachReply& reply) {
  if (!memory_.holds(0, channel::kHeaderBytes)) return bad_attach("context memory");
  header_ = reinterpret_cast<ContextHeader*>(memory_.data());
  if (header_->magic != channel::kContextMagic) return bad_attach("context magic");
  if (!channel::kAbiVersions.has(header_->abi_version)) {
    return fail(LYRE_E_VERSION, "the daemon chose channel version %u, this program's Lyre has %s",
                header_->abi_version, channel::range_text(channel::kAbiVersions).text);
  }
  if (header_->worker_count != reply.worker_count || header_->generation != reply.generation) {
    return bad_attach("context header");
  }
  const uint64_t rings_bytes = uint64_t{reply.worker_count} * sizeof(RingPair);
  const uint64_t rings_offset = header_->rings_offset;
  const uint64_t arena_offset = header_->arena_offset;
  arena_bytes_ = header_->arena_bytes;
  copy_offset_ = header_->copy_offset;
  copy_bytes_ = header_->copy_bytes;
  if (rings_offset % alignof(RingPair) != 0 || !memory_.holds(rings_offset, rings_bytes) ||
      !memory_.holds(arena_offset, arena_bytes_) || !memory_.holds(copy_offset_, copy_bytes_) ||
      arena_bytes_ < Arena::kBlockBytesMin || arena_bytes_ > channel::kArenaBytesMax) {
    return bad_attach("context layout");
  }
  rings_ = reinterpret_cast<RingPair*>(memory_.data() + rings_offset);
  arena_ = memory_.data() + arena_offset;
  return 0;
}

int ContextMemory::map_pools(const AttachReply& reply, const std::vector<UniqueFd>& descriptors) {
  if (reply.lends == 0) return 0;
  pools_.resize(reply.worker_count);
  for (uint32_t i = 0; i < reply.worker_count; ++i) {
    const int fd = descriptors[kWorkerDescriptor + reply.worker_count + i].get();
    if (!pools_[i].map(fd, reply.pool_bytes[i], PROT_READ)) {
      return fail_errno(LYRE_E_NORESOURCES, "cannot map a receive pool");
    }
  }
  return 0;
}

}  // namespace lyre::client
