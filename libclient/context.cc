#include "libclient/context.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "libclient/errors.h"
#include "libclient/sized_struct.h"
#include "stack/channel/control.h"

using lyre::channel::AttachReply;
using lyre::client::UniqueFd;

namespace {

/// lyre_options::patience_ms: the default and the longest.
constexpr uint64_t kPatienceMs = 2000;
constexpr uint64_t kPatienceMsMax = 600'000;
/// Limit of the wait for workers to take the last submissions; usually microseconds.
constexpr int kLastWordsMs = 20;
/// Limit of take_completions(): more turns than a full completion ring takes.
constexpr int kLastTurnsMax = 16;

/// Takes what the completion rings hold by now, which may be more than one turn takes. A daemon
/// that goes on writing does not keep the caller here.
void take_completions(lyre_context& context) {
  for (int turn = 0; turn < kLastTurnsMax && context.work() > 0; ++turn) continue;
}

void adopt_addresses(const lyre::channel::PortInfo& from, lyre_port& to) {
  static_assert(LYRE_PORT_ADDRESSES_MAX == lyre::channel::kPortAddressesMax);
  const uint32_t count = std::min(from.address_count, lyre::channel::kPortAddressesMax);
  for (uint32_t i = 0; i < count; ++i) {
    static_assert(sizeof to.addresses[i].address == sizeof from.addresses[i].address);
    std::memcpy(to.addresses[i].address, from.addresses[i].address, sizeof to.address);
    to.addresses[i].prefix_bits = from.addresses[i].prefix_bits;
  }
  to.address_count = static_cast<int>(count);
  std::memcpy(to.address, to.addresses[0].address, sizeof to.address);
  to.prefix_bits = to.addresses[0].prefix_bits;
}

std::vector<lyre_port> ports_of(const AttachReply& reply) {
  std::vector<lyre_port> ports;
  const uint32_t count = std::min(reply.port_count, lyre::channel::kPortsMax);
  for (uint32_t i = 0; i < count; ++i) {
    const lyre::channel::PortInfo& from = reply.ports[i];
    lyre_port to{};
    static_assert(sizeof to.name == sizeof from.name);
    static_assert(sizeof to.pci_path == sizeof from.pci_path);
    std::memcpy(to.name, from.name, sizeof to.name - 1);
    std::memcpy(to.pci_path, from.pci_path, sizeof to.pci_path - 1);
    adopt_addresses(from, to);
    std::memcpy(to.mac, from.mac, sizeof to.mac);
    to.mtu_bytes = from.mtu_bytes;
    to.speed_mbps = from.speed_mbps;
    to.flow_mbps = from.flow_mbps;
    to.is_link_up = from.is_link_up != 0 ? 1 : 0;
    ports.push_back(to);
  }
  return ports;
}

/// Contexts that follow each other begin at workers far apart (Fibonacci hashing): a job has one
/// for each of its processes and communicators, and most of them open few connections.
uint32_t first_worker(uint64_t generation, uint32_t workers) {
  const auto hash = static_cast<uint32_t>(generation * 0x9e3779b1u);
  return static_cast<uint32_t>(uint64_t{hash} * workers >> 32);
}

}  // namespace

int lyre_context::adopt(lyre::client::Attachment&& attachment, int patience_ms) {
  using namespace lyre::client;
  patience_ms_ = patience_ms;
  owner_ = ::getpid();
  const AttachReply& reply = attachment.reply;
  std::vector<UniqueFd>& fds = attachment.descriptors;
  const uint32_t count = reply.worker_count;
  if (count == 0 || count > lyre::channel::kWorkersMax) return bad_attach("number of workers");
  if (fds.size() != kWorkerDescriptor + count * (reply.lends != 0 ? 2 : 1)) {
    return bad_attach("number of descriptors");
  }
  if (const int code = memory_.map(reply, fds); code != 0) return code;
  arena_ = Arena(memory_.arena_bytes());
  workers_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    workers_.emplace_back(&memory_.rings()[i], &memory_.doorbells()[i],
                          std::move(fds[kWorkerDescriptor + i]));
  }
  next_worker_ = first_worker(reply.generation, count);
  control_ = std::move(attachment.control);
  ports_ = ports_of(reply);
  return waiter_.adopt(std::move(fds[kWakeDescriptor]), control_.fd.get(),
                       memory_.header().client_sleeps);
}

lyre_context::~lyre_context() {
  while (!listeners_.empty()) remove_listener(listeners_.begin()->second);
  // What is acknowledged already needs no deregistration, and what is acknowledged meanwhile no
  // reset.
  take_completions(*this);
  if (failure_ == 0) {
    lyre::client::deregister_unsent(*this);
  } else if (!regions_.all().empty()) {
    lyre::client::await_goodbye(*this);
  }
  take_completions(*this);
  if (failure_ == 0) {
    using lyre::channel::Op;
    const std::vector<lyre_session*> open = sessions_;
    for (lyre_session* session : open) {
      // A closed session goes on sending for a second, from memory that its owner may change.
      const Op op = session->region_sends > 0 ? Op::kAbort : Op::kClose;
      if (!session->is_given_up) give_up(session, op);
    }
    // Wait until the workers have taken the closes: sessions that are open at the hang-up are
    // reset.
    work_until(kLastWordsMs, [this] {
      return std::all_of(workers_.begin(), workers_.end(),
                         [](auto& worker) { return worker.is_all_taken(); });
    });
  }
  while (!sessions_.empty()) remove_session(sessions_.back());
  // The daemon must see the end, also if a child that clone() made has the descriptor.
  if (control_.fd.is_open()) ::shutdown(control_.fd.get(), SHUT_RDWR);
}

int lyre_context::report_failure() const {
  return lyre::client::fail(failure_, "%s", failure_text_.c_str());
}

void lyre_context::fail(int code, const char* text) {
  if (failure_ != 0) return;
  failure_ = code;
  failure_text_ = text;
  ready_.note_news();
  for (lyre_session* session : sessions_) {
    if (session->state == LYRE_ENDED) continue;
    session->state = LYRE_ENDED;
    session->error = code;
    if (!session->is_given_up && !session->is_unaccepted()) {
      ready_.mark(session, LYRE_EVENT_ENDED);
    }
  }
}

void lyre::client::fail_after_completions(lyre_context& context, int code, const char* text) {
  take_completions(context);
  if (context.check() == 0) context.ready().keep_news();
  context.fail(code, text);
}

int lyre_context_open(const lyre_options* options, lyre_context** out) {
  using namespace lyre::client;
  if (out == nullptr) return fail(LYRE_E_INVALID, "no place for the context");
  *out = nullptr;
  lyre_options chosen{};
  if (options != nullptr) {
    if (const int code = read_sized(options, chosen, "lyre_options"); code != 0) return code;
  }
  if (chosen.arena_bytes > lyre::channel::kArenaBytesMax) {
    return fail(LYRE_E_INVALID, "an arena has at most %llu bytes",
                static_cast<unsigned long long>(lyre::channel::kArenaBytesMax));
  }
  if (chosen.patience_ms > kPatienceMsMax) {
    return fail(LYRE_E_INVALID, "patience_ms is at most %llu",
                static_cast<unsigned long long>(kPatienceMsMax));
  }
  const AttachOptions wanted{
      .path = socket_path_or_default(chosen.socket_path),
      .label = chosen.label != nullptr ? chosen.label : program_invocation_short_name,
      .arena_bytes =
          chosen.arena_bytes != 0 ? chosen.arena_bytes : lyre::channel::kArenaBytesDefault,
      .patience_ms = static_cast<int>(chosen.patience_ms != 0 ? chosen.patience_ms : kPatienceMs)};
  Attachment attachment;
  if (const int code = attach(wanted, attachment); code != 0) return code;
  std::unique_ptr<lyre_context> context(new (std::nothrow) lyre_context);
  if (context == nullptr) return fail(LYRE_E_NORESOURCES, "no memory for a context");
  if (const int code = context->adopt(std::move(attachment), wanted.patience_ms); code != 0)
    return code;
  *out = context.release();
  return 0;
}

void lyre_context_close(lyre_context* context) {
  if (context == nullptr || context->owner_ != ::getpid()) return;
  delete context;
}

int lyre_port_count(lyre_context* context) {
  if (context == nullptr) return lyre::client::fail(LYRE_E_INVALID, "no context");
  return static_cast<int>(context->ports().size());
}

int lyre_port_info(lyre_context* context, int index, lyre_port* out) {
  if (context == nullptr || out == nullptr) {
    return lyre::client::fail(LYRE_E_INVALID, "no context, or no place for the port");
  }
  const auto& ports = context->ports();
  if (index < 0 || static_cast<size_t>(index) >= ports.size()) {
    return lyre::client::fail(LYRE_E_INVALID, "the daemon has %zu ports, none with index %d",
                              ports.size(), index);
  }
  return lyre::client::write_sized(ports[static_cast<size_t>(index)], out, "lyre_port");
}

int lyre_workers(lyre_context* context) {
  if (context == nullptr) return lyre::client::fail(LYRE_E_INVALID, "no context");
  return static_cast<int>(context->worker_count());
}
