#include "daemon/housekeeping.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "daemon/config/config_addresses.h"
#include "machine/nic_guard.h"
#include "stack/base/mac_address.h"

namespace lyre {
namespace {

std::chrono::nanoseconds chrono_of(Nanos span) { return std::chrono::nanoseconds(span.value); }

std::string claimed_text(const channel::ClaimView& claim) {
  IpAddress address;
  std::copy(std::begin(claim.address), std::end(claim.address), address.bytes.begin());
  return address_text(address);
}

}  // namespace

Housekeeping::Housekeeping(boost::asio::io_context& io, Assembly& parts, Notifier& notifier,
                           Clock clock)
    : parts_(parts),
      notifier_(notifier),
      clock_(clock),
      links_timer_(io),
      timer_(io),
      progress_(
          parts.threads().count(),
          [&parts](uint32_t worker) { return parts.threads().turns(worker); }, clock()),
      device_counters_(parts.ports().devices(parts.stats())),
      cores_(parts.threads().kept_cores()),
      conflicts_(kConflictWarningPeriod) {}

void Housekeeping::begin() {
  watch_links();
  schedule();
}

bool Housekeeping::is_worker_hanging() const { return progress_.is_hanging(clock_()); }

void Housekeeping::watch_links() {
  links_timer_.expires_after(chrono_of(parts_.links().look()));
  links_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) watch_links();
  });
}

void Housekeeping::schedule() {
  timer_.expires_after(chrono_of(kHousekeepingPeriod));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look();
  });
}

void Housekeeping::look() {
  const Nanos now = clock_();
  // First of all: the service manager compares with a clock that went on during a pause. This
  // thread runs, and hanging workers are counted by looks.
  if (looks_.look(now) > kPauseMin) keep_alive(now);
  parts_.ports().look_after_devices(parts_.stats(), now);
  restart_ports();
  look_for_conflicts(now);
  look_for_checksums();
  device_counters_.look(now);
  cores_.look(now);
  channel::StatsHeader& header = parts_.stats().header();
  header.clients.set(parts_.registry().attached_count());
  header.clients_total.set(parts_.registry().attached_total());
  parts_.refresh_domain_stats();
  if (progress_.look(now)) keep_alive(now);
  if (progress_.must_end()) end_hung_daemon();
  schedule();
}

/// Runs a short step while no worker polls. False: a worker does not end its turn; nothing was
/// done.
template <typename Step>
bool Housekeeping::between_turns(const Step& step) {
  if (!parts_.threads().pause()) return false;
  step();
  parts_.threads().resume();
  return true;
}

/// Workers go on with the other ports while a device is restarted.
void Housekeeping::restart_ports() {
  PortSet& ports = parts_.ports();
  if (ports.must_suspend()) between_turns([&ports] { ports.suspend(); });
  ports.restart();
  parts_.registry().regions().let_ports_go_first(ports.waits_for_memory());
  if (!ports.must_resume()) return;
  if (between_turns([&ports] { ports.resume(); })) parts_.threads().watch_queues();
}

/// Two hosts with one address: an operator has to correct it.
void Housekeeping::look_for_conflicts(Nanos now) {
  uint64_t conflicts = 0;
  for (uint32_t i = 0; i < parts_.threads().count(); ++i) {
    for (const Drop reason : {Drop::kArpConflict, Drop::kNdpConflict}) {
      conflicts += parts_.stats().worker(i).drops[static_cast<size_t>(reason)].get();
    }
  }
  if (!conflicts_.is_due(conflicts, now)) return;
  int64_t told_unix_ns = claims_told_unix_ns_;
  for (uint32_t port = 0; port < parts_.ports().count(); ++port) {
    const auto claim = last_claim(port);
    if (!claim || claim->seen_unix_ns <= claims_told_unix_ns_) continue;
    told_unix_ns = std::max(told_unix_ns, claim->seen_unix_ns);
    spdlog::warn("port {}: another machine, {}, claims {}: one of the two needs another address",
                 parts_.stats().port(port).name, mac_text(claim->mac), claimed_text(*claim));
  }
  claims_told_unix_ns_ = told_unix_ns;
}

/// The newest one that a worker saw.
std::optional<channel::ClaimView> Housekeeping::last_claim(uint32_t port) const {
  std::optional<channel::ClaimView> last;
  for (uint32_t worker = 0; worker < parts_.threads().count(); ++worker) {
    channel::ClaimView view;
    if (!parts_.stats().queues(worker)[port].claim.read(view)) continue;
    if (!last || view.seen_unix_ns > last->seen_unix_ns) last = view;
  }
  return last;
}

/// A kernel leaves checksums to hardware where its interface says that there is some, as veth does.
/// The counter knows no ports, so the line names all that it may be. Once: nothing changes until an
/// operator does something.
void Housekeeping::look_for_checksums() {
  if (has_told_checksums_) return;
  uint64_t wrong = 0;
  for (uint32_t i = 0; i < parts_.threads().count(); ++i) {
    wrong += parts_.stats().worker(i).drops[static_cast<size_t>(Drop::kTcpBadChecksum)].get();
  }
  if (wrong == 0) return;
  has_told_checksums_ = true;
  std::vector<std::string> interfaces;
  for (uint32_t port = 0; port < parts_.ports().count(); ++port) {
    interfaces.push_back(machine::device_argument(parts_.stats().port(port).device, "iface"));
  }
  std::erase(interfaces, "");
  if (interfaces.empty()) return;
  spdlog::info(
      "segments with a wrong TCP checksum are dropped: if the other end of {} is a kernel's, it "
      "leaves checksums to hardware that is not there: ethtool -K INTERFACE tx off at that end",
      fmt::join(interfaces, " or "));
}

/// Containers have no watchdog, and that of the service waits longer. A new daemon serves the
/// clients. The core shows where the worker is.
void Housekeeping::end_hung_daemon() {
  spdlog::critical("a worker has made no turn for {} s: ending this process",
                   kEndAfter.value / seconds(1).value);
  spdlog::default_logger()->flush();
  std::abort();
}

/// While a worker makes no turns it is called after a pause only: the service manager then restarts
/// the daemon.
void Housekeeping::keep_alive(Nanos now) {
  const Nanos period = notifier_.watchdog_period();
  if (period.value == 0 || keep_alive_due_ > now) return;
  notifier_.keep_alive();
  keep_alive_due_ = now + period;
}

}  // namespace lyre
