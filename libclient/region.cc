#include "libclient/region.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <unordered_set>
#include <utility>

#include "libclient/attach.h"
#include "libclient/clock.h"
#include "libclient/context.h"
#include "libclient/errors.h"
#include "libclient/memory_source.h"

using lyre::channel::Control;
using lyre::channel::DeregisterRequest;
using lyre::channel::RegionReply;
using lyre::channel::RegionSource;
using lyre::channel::RegisterRequest;
using lyre::client::MemorySource;

namespace {

/// A request on the control socket. A failure of the socket ends the context. Returns the code that
/// ended it, else 0.
template <typename Request>
int ask(lyre_context& context, Request& request, Control type, int descriptor, RegionReply& reply) {
  request.header = lyre::channel::ControlHeader{};
  request.header.type = type;
  request.header.bytes = sizeof request;
  const int code = lyre::client::ask_region(
      context.control(), {reinterpret_cast<uint8_t*>(&request), sizeof request}, descriptor, reply);
  if (code == 0) return 0;
  lyre::client::fail_after_completions(context, code, lyre_last_error());
  return context.check();
}

/// Whether the daemon may answer differently later. ETIMEDOUT does not count: it comes from a
/// memory helper that hangs, for which each request waits for seconds. Nor does EMFILE: a daemon
/// without descriptors disconnects a client whose descriptor it cannot receive.
bool may_pass(int error) {
  return error == EAGAIN || error == EBUSY || error == EDQUOT || error == ENOMEM || error == ENOSPC;
}

/// Tells the daemon of the region. Returns 0 also when the daemon refuses it: then the region has
/// the reason.
int ask_to_register(lyre_region& region, const MemorySource& source) {
  RegisterRequest request{};
  const bool is_file = source.kind == MemorySource::Kind::kFile;
  request.source = is_file ? RegionSource::kDescriptor : RegionSource::kSharedAnonymous;
  if (!is_file) {
    request.mapping_begin = source.mapping_begin;
    request.mapping_end = source.mapping_end;
  }
  request.offset = source.offset;
  request.bytes = source.page_end - source.page_begin;
  RegionReply reply;
  const int code = ask(*region.context, request, Control::kRegister, source.file.get(), reply);
  if (code != 0) return code;
  if (reply.error != 0) {
    region.why = reply.text;
    region.may_pass = may_pass(reply.error);
    return 0;
  }
  region.name = reply.region;
  region.begin_offset = reinterpret_cast<uint64_t>(region.begin) - source.page_begin;
  return 0;
}

/// 0 when neither a worker nor a port can read the region any more.
int ask_to_deregister(const lyre_region& region) {
  lyre::client::await_goodbye(*region.context);  // memory may still be read
  if (const int code = region.context->check(); code != 0) return code;
  DeregisterRequest request{};
  request.region = region.name;
  RegionReply reply;
  const int code = ask(*region.context, request, Control::kDeregister, -1, reply);
  if (code != 0) return code;
  if (reply.error == 0) return 0;
  return lyre::client::fail(LYRE_E_TIMEDOUT, "the daemon: %s", reply.text);
}

bool sends_from(const lyre_session& session, uint32_t region) {
  for (size_t i = 0; i < session.sends.size(); ++i) {
    if (session.sends[i].region == region) return true;
  }
  return false;
}

/// Names of the regions that sends under way name: those of closed sessions, or of all others.
std::unordered_set<uint32_t> unsent_regions(const lyre_context& context, bool of_closed) {
  std::unordered_set<uint32_t> names;
  for (const lyre_session* session : context.sessions()) {
    const bool is_closed = session->is_given_up && !session->is_aborted;
    if (session->region_sends == 0 || is_closed != of_closed) continue;
    for (size_t i = 0; i < session->sends.size(); ++i) names.insert(session->sends[i].region);
  }
  names.erase(0);  // the arena
  return names;
}

}  // namespace

namespace lyre::client {

lyre_region* Regions::add(lyre_context* context, const void* data, size_t bytes) {
  std::unique_ptr<lyre_region> region(new (std::nothrow) lyre_region);
  if (region == nullptr) return nullptr;
  region->context = context;
  region->begin = static_cast<const uint8_t*>(data);
  region->bytes = bytes;
  region->place = static_cast<uint32_t>(regions_.size());
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

void Regions::remove(lyre_region* region) {
  const uint32_t place = region->place;
  std::swap(regions_[place], regions_.back());
  regions_[place]->place = place;
  regions_.pop_back();
}

void deregister_unsent(lyre_context& context) {
  const int64_t end_ns = now_ns() + kDeregisterUnsentNs;
  std::unordered_set<uint32_t> asked;
  // A closed session can no longer be aborted: it goes on sending until its region goes.
  for (const bool of_closed : {true, false}) {
    const std::unordered_set<uint32_t> names = unsent_regions(context, of_closed);
    for (const std::unique_ptr<lyre_region>& region : context.regions().all()) {
      if (!names.contains(region->name) || !asked.insert(region->name).second) continue;
      ask_to_deregister(*region);
      if (context.check() != 0 || now_ns() >= end_ns) return;
    }
  }
}

}  // namespace lyre::client

int lyre_register(lyre_context* context, const void* data, size_t bytes, lyre_region** out) {
  using namespace lyre::client;
  if (out != nullptr) *out = nullptr;
  if (context == nullptr || data == nullptr || bytes == 0 || out == nullptr ||
      bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(data)) {
    return fail_static(LYRE_E_INVALID, "no context, no memory or no place for the region");
  }
  if (const int code = context->check(); code != 0) return code;
  lyre_region* region = context->regions().add(context, data, bytes);
  if (region == nullptr) return fail_static(LYRE_E_NORESOURCES, "no memory for a region");
  const MemorySource source = find_source(data, bytes);
  if (source.kind == MemorySource::Kind::kPrivate) {
    region->why = source.why;
    region->may_pass = source.may_pass;
  } else if (const int code = ask_to_register(*region, source); code != 0) {
    context->regions().remove(region);
    return code;
  }
  *out = region;
  return 0;
}

int lyre_region_is_direct(const lyre_region* region, const char** why) {
  const bool is_direct = region != nullptr && region->name != 0;
  if (why != nullptr) *why = region != nullptr && !is_direct ? region->why.c_str() : "";
  return is_direct ? 1 : 0;
}

int lyre_region_is_refused_for_now(const lyre_region* region) {
  return region != nullptr && region->name == 0 && region->may_pass ? 1 : 0;
}

int lyre_region_is_in_use(const lyre_region* region) {
  if (region == nullptr || region->name == 0) return 0;
  for (const lyre_session* session : region->context->sessions()) {
    if (session->region_sends == 0 || session->is_aborted) continue;
    if (session->state == LYRE_ENDED) continue;  // with the context: its sends stay listed
    if (sends_from(*session, region->name)) return 1;
  }
  return 0;
}

int lyre_deregister(lyre_region* region) {
  if (region == nullptr) return 0;
  const int code = region->name != 0 ? ask_to_deregister(*region) : 0;
  region->context->regions().remove(region);
  return code;
}
