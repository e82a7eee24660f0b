#include "tests/sim/adapter/lyre_api.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "libclient/errors.h"
#include "nccl_adapter/daemon_link/system.h"

using lyre::adapter_sim::End;
using lyre::adapter_sim::Host;
using lyre::adapter_sim::kMs;
using lyre::adapter_sim::kSecond;
using lyre::adapter_sim::network;
using lyre::adapter_sim::Piece;
using lyre::client::fail;
using lyre::client::fail_static;

namespace lyre::adapter_sim {
namespace {

std::set<lyre_context*> g_contexts;
uint64_t g_copied_tx_bytes = 0;
uint64_t g_copied_rx_bytes = 0;

}  // namespace

const std::set<lyre_context*>& contexts() { return g_contexts; }
uint64_t copied_tx_bytes() { return g_copied_tx_bytes; }
uint64_t copied_rx_bytes() { return g_copied_rx_bytes; }
void reset_copied() { g_copied_tx_bytes = g_copied_rx_bytes = 0; }

void on_session_ready(lyre_session* session) {
  session->context->has_news = true;
  if (session->is_ready || session->is_unaccepted) return;
  session->is_ready = true;
  session->context->ready_sessions.push_back(session);
  network()->on_news(session->context);
}

void on_connection_arrived(lyre_listener* listener, End& end) {
  auto* session = new lyre_session;
  session->context = listener->context;
  session->end = &end;
  session->is_unaccepted = true;
  end.session = session;
  end.context = listener->context;
  listener->context->sessions.push_back(session);
  listener->backlog.push_back(session);
  listener->context->has_news = true;
  if (listener->is_ready) return;
  listener->is_ready = true;
  listener->context->ready_listeners.push_back(listener);
  network()->on_news(listener->context);
}

void on_block_free(lyre_context* context, uint8_t* block) {
  const auto it = context->blocks.find(block);
  context->arena_used -= it->second;
  context->blocks.erase(it);
  delete[] block;
  context->has_news = true;
}

void on_daemon_gone(lyre_context* context, int code) {
  if (context->failure != 0) return;
  context->failure = code;
  context->has_news = true;
  for (lyre_session* session : context->sessions) on_session_ready(session);
}

}  // namespace lyre::adapter_sim

namespace {

int failed(const lyre_context* context) {
  return context->failure != 0 ? fail_static(context->failure, lyre_strerror(context->failure)) : 0;
}

bool is_answering(const lyre_context* context) {
  return context->failure == 0 && context->host->daemon == Host::Daemon::kRunning;
}

constexpr int64_t kLookNs = 10 * kMs;
constexpr int64_t kPatienceNs = 2000 * kMs;

// What blocks in the library. For memory at most two seconds here, where the library waits for a
// minute.
bool await_daemon(const lyre_context* context, int64_t patience_ns = kPatienceNs) {
  for (int64_t waited = 0; waited < patience_ns && context->failure == 0; waited += kLookNs) {
    if (is_answering(context)) return true;
    lyre::nccl_adapter::sleep_ns(kLookNs);
  }
  return false;
}

void unmark(lyre_session* session) {
  if (session->is_ready) std::erase(session->context->ready_sessions, session);
}

void free_session(lyre_session* session) {
  unmark(session);
  std::erase(session->context->unseen, session->end);
  std::erase(session->context->sessions, session);
  if (session->end != nullptr) {
    End& end = *session->end;
    end.session = nullptr;
    end.readable.clear();
    end.readable_bytes = end.held_bytes = 0;
  }
  delete session;
}

bool is_over(const lyre_session* session) { return session->end->state == End::State::kEnded; }

int check_can_send(const lyre_session* session) {
  constexpr size_t kSendsMax = 256;
  if (const int code = failed(session->context); code != 0) return code;
  const End& end = *session->end;
  if (end.state == End::State::kOpen && !end.is_fin_queued) {
    return end.pieces.size() < kSendsMax ? 0 : fail_static(LYRE_E_AGAIN, "too many sends");
  }
  if (is_over(session) && end.error != 0) return fail_static(end.error, lyre_strerror(end.error));
  return fail_static(LYRE_E_NOTCONNECTED, "not connected");
}

void queue(lyre_session* session, Piece piece) {
  End& end = *session->end;
  piece.from = end.queued;
  end.queued += piece.bytes;
  end.pieces.push_back(piece);
  if (session->context->defers_wakeups) {
    session->context->unseen.push_back(&end);
  } else {
    network()->tcp().push(end);
  }
}

bool is_used(const End& end, const lyre_region* region) {
  return std::any_of(end.pieces.begin(), end.pieces.end(),
                     [&](const Piece& piece) { return piece.region == region; });
}

uint8_t* take_block(lyre_context* context, size_t bytes) {
  if (context->arena_used + bytes > network()->settings().arena_bytes) return nullptr;
  auto* block = new uint8_t[bytes];
  context->blocks[block] = bytes;
  context->arena_used += bytes;
  return block;
}

}  // namespace

// ---- Contexts ----

int lyre_context_open(const lyre_options* options, lyre_context** out) {
  *out = nullptr;
  const char* number = std::strrchr(options->socket_path, '/');
  Host& host = network()->host(static_cast<size_t>(std::atoi(number + 1)));
  const int64_t patience_ns =
      options->patience_ms != 0 ? static_cast<int64_t>(options->patience_ms) * kMs : kPatienceNs;
  for (int64_t waited = 0; waited < patience_ns && host.daemon == Host::Daemon::kStopped;
       waited += kLookNs) {
    lyre::nccl_adapter::sleep_ns(kLookNs);
  }
  if (host.daemon != Host::Daemon::kRunning) return fail(LYRE_E_DAEMON, "no daemon answers there");
  if (host.is_closed) return fail(LYRE_E_PERMISSION, "Permission denied");
  auto* context = new lyre_context;
  context->host = &host;
  context->patience_ns = patience_ns;
  context->process = lyre::nccl_adapter::process_id();
  host.contexts.push_back(context);
  lyre::adapter_sim::g_contexts.insert(context);
  *out = context;
  return 0;
}

void lyre_context_close(lyre_context* context) {
  if (context == nullptr) return;
  while (!context->listeners.empty()) lyre_close_listener(context->listeners.back());
  for (const auto& connection : network()->connections()) {
    for (End& end : connection->ends) {
      if (end.context != context) continue;
      // Bytes of the arena and of regions go with them.
      const bool is_whole = end.acked >= end.queued;
      is_whole ? network()->tcp().close(end) : network()->tcp().abort(end);
      end.pieces.clear();
      end.context = nullptr;
    }
  }
  while (!context->sessions.empty()) free_session(context->sessions.back());
  for (const auto& [block, bytes] : context->blocks) delete[] block;
  for (lyre_region* region : context->regions) delete region;
  std::erase(context->host->contexts, context);
  lyre::adapter_sim::g_contexts.erase(context);
  delete context;
}

int lyre_drain(lyre_context* context, int timeout_ms) {
  lyre_wake_workers(context);
  const auto is_drained = [context] {
    for (const auto& connection : network()->connections()) {
      for (const End& end : connection->ends) {
        if (end.context == context && knows(end) && end.acked < end.queued) return false;
      }
    }
    return true;
  };
  for (int ms = 0; ms < timeout_ms; ++ms) {
    if (context->failure != 0) return context->failure;
    if (is_drained()) return 0;
    lyre::nccl_adapter::sleep_ns(kMs);
  }
  return is_drained() ? 0 : LYRE_E_AGAIN;
}

int lyre_port_count(lyre_context* context) { return static_cast<int>(context->host->rails.size()); }

int lyre_port_info(lyre_context* context, int index, lyre_port* out) {
  const auto rail = static_cast<size_t>(index);
  lyre_port& port = *out;
  port = {.struct_bytes = sizeof port};
  std::snprintf(port.name, sizeof(port.name), "rail%d", index);
  std::memcpy(port.address, context->host->rails[rail].address, sizeof(port.address));
  const bool is_one_network = network()->settings().is_one_network;
  const uint32_t ipv6_bits = is_one_network ? 48 : 64;
  const bool is_single = network()->settings().are_single_addresses;
  const uint32_t ipv4_bits = is_single ? 32 : is_one_network ? 8 : 24;
  port.prefix_bits = port.address[0] != 0 ? ipv6_bits : ipv4_bits;
  port.speed_mbps = network()->settings().port_mbps;
  port.is_link_up = network()->wires().is_up({context->host->index, rail}) ? 1 : 0;
  port.address_count = 1;
  std::memcpy(port.addresses[0].address, port.address, sizeof(port.address));
  port.addresses[0].prefix_bits = port.prefix_bits;
  if (context->host->second_addresses.empty()) return 0;
  port.address_count = 2;
  std::memcpy(port.addresses[1].address, context->host->second_addresses[rail].address,
              sizeof(port.address));
  port.addresses[1].prefix_bits = ipv6_bits;
  return 0;
}

int lyre_workers(lyre_context*) { return network()->settings().workers; }

int lyre_poll(lyre_context* context, int) {
  if (context->failure != 0) return fail_static(context->failure, lyre_strerror(context->failure));
  return std::exchange(context->has_news, false) ? 1 : 0;
}

int lyre_arm(lyre_context* context) { return context->has_news ? 1 : 0; }
int lyre_eventfd(lyre_context*) { return -1; }
// Every worker sleeps as long as it may: a wake-up that the caller forgets stops its bytes until
// the peer acknowledges others.
void lyre_defer_wakeups(lyre_context* context) { context->defers_wakeups = true; }
void lyre_wake_workers(lyre_context* context) {
  if (context == nullptr) return;
  for (End* end : std::exchange(context->unseen, {})) network()->tcp().push(*end);
}
int lyre_arm_rest(lyre_context* context, int max_us) {
  lyre_wake_workers(context);
  return network()->settings().are_cores_busy && lyre_arm(context) == 0 ? max_us : 0;
}

// Which event it was (`happened`) stays 0: the adapter looks at the session or listener itself.
int lyre_next_event(lyre_context* context, lyre_event* out) {
  *out = {.struct_bytes = sizeof *out};
  if (!context->ready_listeners.empty()) {
    out->listener = context->ready_listeners.front();
    context->ready_listeners.pop_front();
    out->listener->is_ready = false;
    return 1;
  }
  if (context->ready_sessions.empty()) return 0;
  out->session = context->ready_sessions.front();
  context->ready_sessions.pop_front();
  out->session->is_ready = false;
  return 1;
}

// ---- Opening ----

int lyre_connect(lyre_context* context, const lyre_addr* local, const lyre_addr* remote,
                 lyre_session** out) {
  *out = nullptr;
  if (const int code = failed(context); code != 0) return code;
  if (network()->rng().below(50) == 0) return fail_static(LYRE_E_AGAIN, "the ring is full");
  if (!network()->may_connect(context)) {
    return fail(LYRE_E_NORESOURCES, "the daemon has no session left");
  }
  auto* session = new lyre_session;
  session->context = context;
  session->end = network()->connect(context, local, *remote);
  if (session->end == nullptr) {
    delete session;
    return fail(LYRE_E_UNREACHABLE, "no such address");
  }
  session->end->session = session;
  context->sessions.push_back(session);
  *out = session;
  return 0;
}

int lyre_listen(lyre_context* context, const lyre_addr* local, int, lyre_listener** out) {
  *out = nullptr;
  if (const int code = failed(context); code != 0) return code;
  if (!await_daemon(context, context->patience_ns)) return fail(LYRE_E_DAEMON, "no answer in time");
  auto* listener = new lyre_listener;
  listener->context = context;
  listener->port = network()->listen(context, listener, local->port);
  if (listener->port == 0) {
    delete listener;
    return fail(LYRE_E_ADDRINUSE, "that port has a listener");
  }
  context->listeners.push_back(listener);
  *out = listener;
  return 0;
}

int lyre_listener_addr(lyre_listener* listener, lyre_addr* out) {
  *out = {};
  out->port = listener->port;
  return 0;
}

int lyre_accept(lyre_listener* listener, lyre_session** out) {
  *out = nullptr;
  if (const int code = failed(listener->context); code != 0) return code;
  if (listener->backlog.empty()) return fail_static(LYRE_E_AGAIN, "no connection to accept");
  lyre_session* session = listener->backlog.front();
  listener->backlog.pop_front();
  session->is_unaccepted = false;
  if (session->end->readable_bytes > 0 || session->end->is_fin_received || is_over(session)) {
    lyre::adapter_sim::on_session_ready(session);
  }
  *out = session;
  return 0;
}

void lyre_close_listener(lyre_listener* listener) {
  if (listener == nullptr) return;
  lyre_context* context = listener->context;
  for (lyre_session* session : listener->backlog) {
    network()->tcp().abort(*session->end);
    free_session(session);
  }
  network()->close_listener(*context->host, listener);
  std::erase(context->listeners, listener);
  if (listener->is_ready) std::erase(context->ready_listeners, listener);
  delete listener;
}

int lyre_state(const lyre_session* session) {
  if (session->context->failure != 0) return LYRE_ENDED;
  switch (session->end->state) {
    case End::State::kNone:
    case End::State::kOpening:
      return LYRE_CONNECTING;
    case End::State::kOpen:
      return LYRE_OPEN;
    case End::State::kEnded:
      break;
  }
  return LYRE_ENDED;
}

int lyre_session_error(const lyre_session* session) {
  const int code = is_over(session) ? session->end->error : session->context->failure;
  return code != 0 ? fail_static(code, lyre_strerror(code)) : 0;
}

int lyre_session_addrs(const lyre_session* session, lyre_addr* local, lyre_addr* remote) {
  *local = session->end->local;
  *remote = session->end->remote;
  return 0;
}

void lyre_set_user(lyre_session* session, void* user) { session->user = user; }
void* lyre_user(const lyre_session* session) { return session->user; }
lyre_context* lyre_session_context(const lyre_session* session) { return session->context; }

// ---- Sending ----

int64_t lyre_send(lyre_session* session, const void* data, size_t bytes) {
  if (const int code = check_can_send(session); code != 0) return code;
  const size_t count =
      bytes > 1 && network()->rng().below(16) == 0 ? 1 + network()->rng().below(bytes) : bytes;
  uint8_t* block = take_block(session->context, count);
  if (block == nullptr) return fail_static(LYRE_E_AGAIN, "the arena is full");
  std::memcpy(block, data, count);
  queue(session, {.bytes = static_cast<uint32_t>(count), .data = block, .block = block});
  return static_cast<int64_t>(count);
}

int lyre_block_alloc(lyre_context* context, size_t bytes, lyre_block* out) {
  if (const int code = failed(context); code != 0) return code;
  out->data = take_block(context, bytes);
  out->bytes = bytes;
  return out->data != nullptr ? 0 : fail_static(LYRE_E_AGAIN, "the arena is full");
}

void lyre_block_free(lyre_context* context, const lyre_block* block) {
  lyre::adapter_sim::on_block_free(context, static_cast<uint8_t*>(block->data));
}

int lyre_send_block(lyre_session* session, const lyre_block* block, size_t bytes, uint64_t) {
  if (const int code = check_can_send(session); code != 0) return code;
  if (network()->rng().below(200) == 0) return fail_static(LYRE_E_AGAIN, "the ring is full");
  auto* data = static_cast<uint8_t*>(block->data);
  queue(session, {.bytes = static_cast<uint32_t>(bytes), .data = data, .block = data});
  return 0;
}

int lyre_register(lyre_context* context, const void* data, size_t bytes, lyre_region** out) {
  *out = nullptr;
  if (const int code = failed(context); code != 0) return code;
  if (!await_daemon(context)) return fail(LYRE_E_DAEMON, "no answer within two seconds");
  ++context->host->memory_requests;
  Host& host = *context->host;
  const bool is_refused = host.refuses_memory;
  const bool is_final = host.final_refusals > 0;
  if (is_final) --host.final_refusals;
  const bool is_direct = network()->settings().is_memory_direct && !is_refused && !is_final;
  *out = new lyre_region{context, static_cast<const uint8_t*>(data), bytes, is_direct, is_refused};
  context->regions.push_back(*out);
  return 0;
}

int lyre_region_is_direct(const lyre_region* region, const char** why) {
  *why = "the simulator says so";
  return region->is_direct ? 1 : 0;
}

int lyre_region_is_refused_for_now(const lyre_region* region) {
  return region->is_refused_for_now ? 1 : 0;
}

int lyre_region_is_in_use(const lyre_region* region) {
  if (region == nullptr || region->context->failure != 0) return 0;
  for (const auto& connection : network()->connections()) {
    for (const End& end : connection->ends) {
      if (is_used(end, region)) return 1;
    }
  }
  return 0;
}

int lyre_deregister(lyre_region* region) {
  if (region == nullptr) return 0;
  for (const auto& connection : network()->connections()) {
    for (End& end : connection->ends) {
      if (!is_used(end, region)) continue;
      lyre_session* session = end.session;
      network()->tcp().abort(end);
      end.session = session;
      end.error = LYRE_E_DEREGISTERED;
      if (session != nullptr) lyre::adapter_sim::on_session_ready(session);
    }
  }
  std::erase(region->context->regions, region);
  delete region;
  return 0;
}

int lyre_send_region(lyre_session* session, lyre_region* region, const void* data, size_t bytes,
                     uint64_t) {
  if (const int code = check_can_send(session); code != 0) return code;
  if (network()->rng().below(200) == 0) return fail_static(LYRE_E_AGAIN, "the ring is full");
  const auto* from = static_cast<const uint8_t*>(data);
  if (region->context != session->context || from < region->data ||
      from + bytes > region->data + region->bytes) {
    return fail(LYRE_E_INVALID, "not in the region");
  }
  queue(session, {.bytes = static_cast<uint32_t>(bytes), .data = from, .region = region});
  return 0;
}

uint64_t lyre_unacked_bytes(const lyre_session* session) {
  if (session == nullptr) return 0;
  const End& end = *session->end;
  const uint64_t acked = std::min(end.acked, end.queued);
  const uint64_t exact = is_over(session) ? 0 : end.queued - acked;
  if (!network()->settings().lags_acks) return exact;
  // Whole sends at once, parts of one a tenth of a second late.
  const int64_t now_ns = network()->events().now_ns();
  const uint64_t whole = end.pieces.empty() ? 0 : end.queued - end.pieces.front().from;
  if (whole < session->told_unacked || now_ns - session->told_ns >= 100 * kMs || exact == 0) {
    session->told_ns = now_ns;
    session->told_unacked = exact;
  } else {
    // Never more than was told, but for what was sent since.
    session->told_unacked = std::max(session->told_unacked, exact);
  }
  return session->told_unacked;
}

uint64_t lyre_rtt_min_us(const lyre_session* session) {
  if (session == nullptr) return 0;
  const auto us = static_cast<uint64_t>(network()->settings().delay_ns / 500);
  return session->end->acked > 0 ? std::max<uint64_t>(us, 1) : 0;
}

uint64_t lyre_rto_us(const lyre_session* session) {
  return session != nullptr ? static_cast<uint64_t>(session->end->told_rto_ns / 1'000) : 0;
}

int lyre_is_window_closed(const lyre_session* session) {
  return session != nullptr && session->end->is_window_closed ? 1 : 0;
}

// ---- Receiving ----

int lyre_recv_slices(lyre_session* session, lyre_slice* out, int count) {
  if (const int code = failed(session->context); code != 0) return code;
  End& end = *session->end;
  int taken = 0;
  while (taken < count && !end.readable.empty()) {
    std::vector<uint8_t> run = std::move(end.readable.front());
    end.readable.pop_front();
    end.readable_bytes -= run.size();
    end.held_bytes += run.size();
    const uint32_t token = session->next_token++;
    std::vector<uint8_t>& held = session->held[token] = std::move(run);
    out[taken++] = {held.data(), static_cast<uint32_t>(held.size()), token};
  }
  if (taken > 0) return taken;
  if (end.is_fin_received) return 0;
  if (is_over(session)) {
    return end.error != 0 ? fail_static(end.error, lyre_strerror(end.error)) : 0;
  }
  return fail_static(LYRE_E_AGAIN, "nothing has arrived");
}

int lyre_check_slices(lyre_session* session) {
  if (session == nullptr) return fail_static(LYRE_E_INVALID, "no session");
  lyre_context* context = session->context;
  if (const int code = std::exchange(context->failure_at_check, 0); code != 0) {
    lyre::adapter_sim::on_daemon_gone(context, code);
  }
  return failed(context);
}

void lyre_release(lyre_session* session, const lyre_slice* slices, int count) {
  for (int i = 0; i < count; ++i) {
    const auto it = session->held.find(slices[i].token);
    if (it == session->held.end()) std::abort();  // the daemon ends clients that do so twice
    session->end->held_bytes -= it->second.size();
    session->held.erase(it);
  }
  network()->tcp().on_released(*session->end);
}

void lyre_count_copied(lyre_session*, uint64_t tx_bytes, uint64_t rx_bytes) {
  lyre::adapter_sim::g_copied_tx_bytes += tx_bytes;
  lyre::adapter_sim::g_copied_rx_bytes += rx_bytes;
}

// ---- Options and ending ----

int lyre_set_option(lyre_session* session, lyre_option option, uint32_t value) {
  End& end = *session->end;
  switch (option) {
    case LYRE_OPTION_USER_TIMEOUT_MS:
      end.user_timeout_ns = int64_t{value} * kMs;
      break;
    case LYRE_OPTION_KEEPALIVE_IDLE_MS:
      end.keepalive_ns = int64_t{value} * kMs;
      network()->tcp().set_keepalive(end);
      break;
    case LYRE_OPTION_KEEPALIVE_PROBES:
      end.probes_max = value;
      break;
    default:
      break;
  }
  return 0;
}

int lyre_shutdown(lyre_session* session) {
  if (const int code = failed(session->context); code != 0) return code;
  network()->tcp().shut(*session->end);
  return 0;
}

void lyre_close(lyre_session* session) {
  End& end = *session->end;
  network()->tcp().close(end);
  free_session(session);
}

void lyre_abort(lyre_session* session) {
  network()->tcp().abort(*session->end);
  free_session(session);
}
