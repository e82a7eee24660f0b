#include "daemon/predecessor.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/base/errno_error.h"
#include "daemon/base/readable.h"
#include "daemon/base/watch.h"
#include "daemon/handover_versions.h"
#include "daemon/protocol/handover_records.h"
#include "daemon/upgrade/offer.h"
#include "daemon/upgrade/port_handover.h"

namespace lyre {
namespace {

/// By port: the addresses of IPv6 of which all workers found that no other host has them. REQUIRES:
/// no worker polls.
std::vector<std::vector<IpAddress>> verified_addresses(Assembly& assembly) {
  std::vector<std::vector<IpAddress>> out(assembly.ports().count());
  for (uint32_t port = 0; port < out.size(); ++port) {
    out[port] = assembly.worker(0).verified_addresses(port);
    for (uint32_t i = 1; i < assembly.threads().count(); ++i) {
      const std::vector<IpAddress> its = assembly.worker(i).verified_addresses(port);
      std::erase_if(out[port], [&its](const IpAddress& address) {
        return std::find(its.begin(), its.end(), address) == its.end();
      });
    }
  }
  return out;
}

}  // namespace

Predecessor::Predecessor(boost::asio::io_context& io, Parts parts)
    : parts_(std::move(parts)), watch_(io), timer_(io) {}

void Predecessor::begin(Answer answer) {
  if (is_under_way()) return answer({.status = Error{EALREADY, "an upgrade is under way"}});
  if (Status allowed = check(); !allowed.ok()) return answer({.status = allowed});
  answer_ = std::move(answer);
  spdlog::info("upgrade: starting {}", parts_.program);
  Status started = start_process();
  if (started.ok()) started = wait_until_prepared();
  if (!started.ok()) fail(started.error());
}

void Predecessor::cancel() {
  if (is_under_way()) fail({ECANCELED, "the daemon is stopping"});
}

Status Predecessor::check() const {
  if (parts_.program.empty()) return Error{ENOTSUP, "this daemon cannot be upgraded"};
  const Status may = check_may_be_replaced(::getpid(), std::getenv("LYRE_CONTAINER_MAIN"));
  if (!may.ok()) return may;
  return check_ports_can_be_handed_over(parts_.config, parts_.assembly.ports().that_free_twice());
}

Status Predecessor::start_process() {
  auto process = NewProcess::start(parts_.program, {"--config", parts_.config.file, "--take-over"});
  if (!process.ok()) return process.error();
  process_ = std::move(*process);
  link_.emplace(process_->take_socket());
  record::Writer offer;
  write_offer(parts_.config, parts_.assembly.ports().records(),
              parts_.assembly.uses_physical_addresses(), least_versions(), offer);
  return link_->send(UpgradeStep::kOffer, offer.bytes());
}

Status Predecessor::wait_until_prepared() {
  OwnedFd link(::fcntl(link_->fd(), F_DUPFD_CLOEXEC, 0));
  if (!link.is_open()) return errno_error("the new process cannot be watched");
  if (!watch(watch_, link)) return Error{ENOSPC, kNoMoreWatches};
  watch_link();
  timer_.expires_after(std::chrono::nanoseconds(kUpgradePreparation.value));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && is_under_way()) fail({ETIMEDOUT, "the new process is not ready in time"});
  });
  return Ok{};
}

void Predecessor::watch_link() {
  watch_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error) return;
                      if (is_readable(watch_.native_handle())) return on_prepared();
                      watch_link();
                    });
}

void Predecessor::on_prepared() {
  if (!is_under_way()) return;
  auto prepared = link_->expect(UpgradeStep::kPrepared, {});
  if (!prepared.ok()) return fail(prepared.error());
  auto release = read_prepared(prepared->payload, least_versions());
  if (!release.ok()) return fail(release.error());
  release_ = std::move(*release);
  parts_.assembly.control().hold_memory_requests(true);
  hand_over_when_quiet(monotonic_now());
}

/// A registration is answered by the process that took the request.
void Predecessor::hand_over_when_quiet(Nanos begin) {
  if (is_registering()) {
    const Nanos waited = monotonic_now() - begin;
    if (waited >= kUpgradeMappings) {
      parts_.mappings.refuse_waiting();
      parts_.assembly.registry().refuse_slow_arenas(true);
      parts_.assembly.control().say_goodbyes(/*only_due=*/false);
    }
    if (waited >= kUpgradeRegistrations) {
      return fail({EBUSY, "the memory that clients register takes too long: try again"});
    }
    timer_.expires_after(std::chrono::nanoseconds(kRepliesPeriod.value));
    timer_.async_wait([this, begin](const boost::system::error_code& error) {
      if (!error && is_under_way()) hand_over_when_quiet(begin);
    });
    return;
  }
  const Status done = hand_over();
  if (!done.ok()) return fail(done.error());
  const pid_t pid = process_->pid();
  process_->let_go();
  spdlog::info("upgrade: process {} ({}) goes on, after a pause of {} ms", pid, release_,
               pause_.value / 1'000'000);
  std::exchange(answer_, nullptr)({.status = Ok{},
                                   .pid = pid,
                                   .pause_us = static_cast<uint32_t>(pause_.value / 1000),
                                   .release = release_});
  parts_.on_replaced(pid);
}

Status Predecessor::hand_over() {
  if (!pause_when_quiet()) return Error{EBUSY, "the workers do not come to rest: try again"};
  const Nanos begin = monotonic_now();
  Status left = leave_if_memory_allows();
  if (left.ok()) left = await_taken_over(begin + parts_.pause_max);
  pause_ = monotonic_now() - begin;
  if (left.ok()) return left;
  const Error reason = explain(left.error());  // the ports are free only when it has ended
  go_on();
  return reason;
}

/// The records of all sessions may be more than is left. The workers stand still, and must go on.
Status Predecessor::leave_if_memory_allows() {
  try {
    parts_.assembly.threads().call_clients(true);
    parts_.keep_alive();
    return leave();
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, "no memory to hand over"};
  }
}

/// Stops the workers at a time at which they and the control thread owe each other no answer.
bool Predecessor::pause_when_quiet() {
  WorkerThreads& threads = parts_.assembly.threads();
  const Nanos deadline = monotonic_now() + kUpgradeRest;
  while (monotonic_now() < deadline) {
    parts_.assembly.control().say_goodbyes(/*only_due=*/true);  // no timer runs meanwhile
    parts_.replies.look();
    if (is_quiet() && threads.pause()) {
      parts_.replies.look();
      if (is_quiet() && settle_workers()) return true;
      threads.resume();
    }
    ::usleep(kUpgradeTryUs);
  }
  return false;
}

/// A connection that moves from one worker to another belongs to neither until it has arrived. Its
/// arrival may expel a client: that answer is taken here, because answers are not handed over.
bool Predecessor::settle_workers() {
  Assembly& assembly = parts_.assembly;
  for (int i = 0; i < kUpgradeTries; ++i) {
    size_t taken = 0;
    for (uint32_t w = 0; w < assembly.threads().count(); ++w) {
      taken += assembly.worker(w).take_messages();
    }
    if (taken > 0) continue;
    parts_.replies.look();
    return is_quiet();
  }
  return false;
}

bool Predecessor::is_quiet() {
  if (parts_.assembly.registry().has_waiting() || is_registering()) return false;
  for (uint32_t i = 0; i < parts_.assembly.threads().count(); ++i) {
    if (!parts_.assembly.worker(i).inbox().is_empty()) return false;
  }
  return true;
}

bool Predecessor::is_registering() {
  return parts_.assembly.control().has_pending_requests() ||
         parts_.assembly.registry().regions().is_registering();
}

Status Predecessor::leave() {
  record::Writer records;
  std::vector<int> descriptors;
  write_state(records, descriptors);
  if (Status sent = link_->send_state(records, descriptors); !sent.ok()) return sent;
  parts_.assembly.ports().close(ports_with(PortHandover::kClosed, parts_.config),
                                parts_.keep_alive);
  return link_->send(UpgradeStep::kPortsClosed);
}

/// Where there is no memory to receive its word with, the other process may serve already, and its
/// word stays in the socket: this process asks again, and does not go on beside it.
Status Predecessor::await_taken_over(Nanos deadline) {
  for (;;) {
    try {
      const Nanos left = later(deadline - monotonic_now(), nanos(0));
      const auto taken = link_->expect(UpgradeStep::kTakenOver, earlier(left, kUpgradeSign));
      if (taken.ok()) return Ok{};
      if (taken.error().code != ETIMEDOUT || monotonic_now() >= deadline) return taken.error();
      parts_.keep_alive();
    } catch (const std::bad_alloc&) {
      if (monotonic_now() >= deadline) throw;
      ::usleep(kUpgradeTryUs);
    }
  }
}

void Predecessor::write_state(record::Writer& records, std::vector<int>& descriptors) {
  Assembly& assembly = parts_.assembly;
  ControlServers& control = assembly.control();
  RegistryRecord registry{.secret = assembly.secret(),
                          .verified_addresses = verified_addresses(assembly)};
  registry.has_helper = parts_.mappings.helper_socket() >= 0;
  if (registry.has_helper) descriptors.push_back(parts_.mappings.helper_socket());
  record::Writer attached;
  std::vector<int> connections;
  for (uint32_t i = 0; i < control.count(); ++i) {
    descriptors.push_back(control[i].listener());
    registry.attached_count += control[i].write_handover(i, attached, connections);
  }
  assembly.registry().write_handover(registry, records, descriptors);
  records.append(attached);
  descriptors.insert(descriptors.end(), connections.begin(), connections.end());
  for (uint32_t i = 0; i < assembly.threads().count(); ++i) {
    assembly.worker(i).write_handover(records);
  }
}

/// As if nothing had happened.
void Predecessor::go_on() {
  parts_.assembly.ports().reopen(parts_.keep_alive);
  parts_.assembly.threads().call_clients(false);
  parts_.assembly.threads().resume();
  parts_.assembly.threads().watch_queues();
}

/// Afterwards the new process has ended: its ports are free. How it did may be the only reason that
/// there is.
Error Predecessor::explain(const Error& error) {
  if (!process_ || process_->pid() < 0) return error;
  if (error.code != EPIPE && error.code != EIO) process_->kill();  // it does not end by itself
  if (process_->pid() < 0) return error;
  parts_.keep_alive();
  const ProcessEnd end = process_->await_end(kUpgradeEnd);
  parts_.keep_alive();
  if (error.code != EPIPE) return error;
  return {EIO, "the new process " + end.text +
                   (end.has_exited ? ", and has written why to the log" : "")};
}

void Predecessor::fail(const Error& error) {
  const Error reason = explain(error);
  spdlog::error("upgrade: not done, this process goes on: {}", reason.text);
  boost::system::error_code ignored;
  watch_.close(ignored);
  timer_.cancel();
  process_.reset();
  link_.reset();
  parts_.assembly.control().hold_memory_requests(false);
  parts_.assembly.registry().refuse_slow_arenas(false);
  std::exchange(answer_, nullptr)({.status = reason});
}

}  // namespace lyre
