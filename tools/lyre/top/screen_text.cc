#include "tools/lyre/top/screen_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "tools/lyre/look.h"
#include "tools/lyre/network.h"
#include "tools/lyre/session_table.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

using Align = TextTable::Align;
using Order = SessionFilter::Order;

/// Those of a session's line beside its numbers.
constexpr size_t kTopPeerColumns = 21;
constexpr size_t kTopOwnerColumns = 14;

constexpr std::pair<Order, const char*> kOrders[] = {{Order::kSent, "sent"},
                                                     {Order::kReceived, "received"},
                                                     {Order::kRetransmitted, "retransmitted"},
                                                     {Order::kRtt, "rtt"},
                                                     {Order::kQueued, "queued"},
                                                     {Order::kAge, "age"}};

/// What was counted since the look before, a second.
class Rates {
 public:
  Rates(const Snapshot& now, const Snapshot* earlier)
      : interval_ns_(earlier != nullptr ? now.taken_unix_ns - earlier->taken_unix_ns : 0) {}

  std::string bits(uint64_t before_bytes, uint64_t bytes) const {
    return interval_ns_ > 0 ? format_rate(8 * per_second(before_bytes, bytes, interval_ns_)) : "-";
  }
  std::string events(uint64_t before, uint64_t count) const {
    if (interval_ns_ <= 0) return "-";
    return std::to_string(static_cast<uint64_t>(per_second(before, count, interval_ns_) + 0.5));
  }

 private:
  int64_t interval_ns_;
};

std::string share_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%",
                100 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string cut(std::string text, size_t columns) {
  if (text.size() > columns) text.resize(columns);
  return text;
}

std::string owner_text(const char (&label)[32], int32_t pid) {
  const std::string process = "/" + std::to_string(pid);
  return cut(std::string(label, ::strnlen(label, sizeof label)),
             kTopOwnerColumns - std::min(process.size(), kTopOwnerColumns)) +
         process;
}

std::string headline(const Snapshot& now) {
  return now.daemon_name + "  lyred " + now.daemon_version + "  up " +
         format_duration(now.taken_unix_ns - now.started_unix_ns) + "  " +
         std::to_string(now.clients) + (now.clients == 1 ? " client" : " clients") + "  " +
         format_time(now.taken_unix_ns + now.clock_step_ns);
}

uint64_t drops_of(const Snapshot& snapshot, size_t reason) {
  uint64_t sum = 0;
  for (const WorkerSnapshot& worker : snapshot.workers) sum += worker.drops[reason];
  return sum;
}

uint64_t missed_by_all(const Snapshot& snapshot) {
  uint64_t sum = 0;
  for (const PortSnapshot& port : snapshot.ports) sum += missed_of(port);
  return sum;
}

uint64_t not_sent_by_all(const Snapshot& snapshot) {
  uint64_t sum = 0;
  for (const PortSnapshot& port : snapshot.ports) {
    sum += sum_of_queues(port)[QueueCounter::tx_dropped];
  }
  return sum;
}

/// The reasons for which most packets were dropped since the look before, and what ports lost.
std::string drops_text(const Snapshot& now, const Snapshot* earlier, const Rates& rates) {
  if (earlier == nullptr) return "dropped: -";
  std::vector<std::pair<uint64_t, const char*>> grown;
  const auto add = [&grown](uint64_t before, uint64_t count, const char* key) {
    if (count > before) grown.emplace_back(count - before, key);
  };
  for (size_t reason = 0; reason < kDropCount; ++reason) {
    add(drops_of(*earlier, reason), drops_of(now, reason), kDropTexts[reason].key);
  }
  add(missed_by_all(*earlier), missed_by_all(now), "missed");
  add(not_sent_by_all(*earlier), not_sent_by_all(now), "not sent");
  if (grown.empty()) return "dropped: nothing";
  std::ranges::stable_sort(grown, std::greater{}, [](const auto& each) { return each.first; });
  std::string out = "dropped a second:";
  for (const auto& [count, key] : grown) {
    out += std::string(" ") + key + " " + rates.events(0, count);
  }
  return out;
}

/// Numbers of the workers. Where not all have room those come first whose turns found work most
/// often, by the percent that is shown.
std::vector<size_t> workers_in_order(const Snapshot& now, const Snapshot* earlier, size_t room) {
  std::vector<std::pair<int64_t, size_t>> loads;
  for (size_t i = 0; i < now.workers.size(); ++i) {
    const WorkerSnapshot before = earlier != nullptr ? earlier->workers[i] : WorkerSnapshot{};
    const uint64_t busy = now.workers[i][Counter::busy_polls] - before[Counter::busy_polls];
    const uint64_t polls = now.workers[i][Counter::polls] - before[Counter::polls];
    const double share = polls > 0 ? static_cast<double>(busy) / static_cast<double>(polls) : 0;
    loads.push_back({std::llround(100 * share), i});
  }
  if (loads.size() > room) {
    std::ranges::stable_sort(loads, std::greater{}, [](const auto& load) { return load.first; });
  }
  std::vector<size_t> out;
  for (const auto& [load, worker] : loads) out.push_back(worker);
  return out;
}

TextTable workers_table(const Snapshot& now, const Snapshot* earlier, const Rates& rates,
                        size_t room) {
  TextTable table;
  for (const char* title :
       {"worker", "busy", "sessions", "received", "sent", "sent again", "free slots"}) {
    table.add_column(title, Align::kRight);
  }
  for (const size_t i : workers_in_order(now, earlier, room)) {
    const WorkerSnapshot& worker = now.workers[i];
    const WorkerSnapshot before = earlier != nullptr ? earlier->workers[i] : WorkerSnapshot{};
    const auto bits = [&](Counter counter) { return rates.bits(before[counter], worker[counter]); };
    table.add_row(
        {std::to_string(i),
         share_text(worker[Counter::busy_polls] - before[Counter::busy_polls],
                    worker[Counter::polls] - before[Counter::polls]),
         std::to_string(sessions_in_use(worker)), bits(Counter::tcp_payload_in),
         bits(Counter::tcp_payload_out), bits(Counter::tcp_payload_retransmitted),
         std::to_string(worker.rx_slots_free) + "/" + std::to_string(worker.rx_slots_total)});
  }
  return table;
}

TextTable ports_table(const Snapshot& now, const Snapshot* earlier, const Rates& rates) {
  TextTable table;
  table.add_column("port");
  table.add_column("link");
  for (const char* title : {"received", "sent", "missed/s", "port full/s", "not sent/s"}) {
    table.add_column(title, Align::kRight);
  }
  for (size_t i = 0; i < now.ports.size(); ++i) {
    const QueueSnapshot sum = sum_of_queues(now.ports[i]);
    const QueueSnapshot before =
        earlier != nullptr ? sum_of_queues(earlier->ports[i]) : QueueSnapshot{};
    const uint64_t missed_before = earlier != nullptr ? missed_of(earlier->ports[i]) : 0;
    const auto bits = [&](QueueCounter counter) {
      return rates.bits(before[counter], sum[counter]);
    };
    const auto events = [&](QueueCounter counter) {
      return rates.events(before[counter], sum[counter]);
    };
    table.add_row({cut(now.ports[i].name, 16), link_text(now.ports[i]),
                   bits(QueueCounter::rx_bytes), bits(QueueCounter::tx_bytes),
                   rates.events(missed_before, missed_of(now.ports[i])),
                   events(QueueCounter::tx_full), events(QueueCounter::tx_dropped)});
  }
  return table;
}

struct ClientSum {
  std::string owner;
  uint64_t sessions = 0;
  uint64_t slots_held = 0;
  SessionRates rates;
};

/// Those that move most bytes first.
std::vector<ClientSum> clients_of(const Snapshot& now, const Snapshot* earlier) {
  using Key = std::pair<int32_t, std::string>;
  std::map<Key, ClientSum> sums;
  const auto key_of_owner = [](const auto& view) {
    return Key(view.pid, std::string(view.label, ::strnlen(view.label, sizeof view.label)));
  };
  for (const channel::ClientView& view : now.client_views) {
    ClientSum& sum = sums[key_of_owner(view)];
    sum.owner = owner_text(view.label, view.pid);
    sum.sessions += view.sessions;
    sum.slots_held += view.rx_slots_held;
  }
  for (const channel::SessionView& view : now.sessions) {
    const auto owner = sums.find(key_of_owner(view));
    if (owner == sums.end() || view.is_listener != 0) continue;
    const SessionRates rates = rates_of(view, now.taken_unix_ns, earlier);
    owner->second.rates.sent_bits_per_s += rates.sent_bits_per_s;
    owner->second.rates.received_bits_per_s += rates.received_bits_per_s;
  }
  std::vector<ClientSum> out;
  for (auto& [key, sum] : sums) out.push_back(std::move(sum));
  std::ranges::stable_sort(out, std::greater{}, [](const ClientSum& sum) {
    return sum.rates.sent_bits_per_s + sum.rates.received_bits_per_s;
  });
  return out;
}

TextTable clients_table(const Snapshot& now, const Snapshot* earlier) {
  TextTable table;
  table.add_column("client");
  for (const char* title : {"sessions", "slots held", "received", "sent"}) {
    table.add_column(title, Align::kRight);
  }
  for (const ClientSum& sum : clients_of(now, earlier)) {
    const bool has_rates = earlier != nullptr;
    table.add_row({sum.owner, std::to_string(sum.sessions), std::to_string(sum.slots_held),
                   has_rates ? format_rate(sum.rates.received_bits_per_s) : "-",
                   has_rates ? format_rate(sum.rates.sent_bits_per_s) : "-"});
  }
  return table;
}

/// Of those that fit, at the least; `total` is how many there are.
TextTable sessions_table(const Snapshot& now, const Snapshot* earlier, const TopView& view,
                         size_t& total) {
  std::vector<channel::SessionView> sessions = now.sessions;
  std::erase_if(sessions, [](const auto& shown) { return shown.is_listener != 0; });
  keep_wanted(sessions, {.order = view.order}, now.taken_unix_ns, earlier);
  total = sessions.size();
  if (total > view.lines) sessions.resize(view.lines);  // no more fit
  TextTable table;
  for (const char* title : {"peer", "owner"}) table.add_column(title);
  for (const char* title : {"rtt", "received", "sent"}) table.add_column(title, Align::kRight);
  table.add_column("limited by");
  const size_t more = std::max(view.columns, kTopColumnsMin) - kTopColumnsMin;
  for (const channel::SessionView& shown : sessions) {
    const std::string peer = format_endpoint(shown.remote_address, shown.remote_port);
    const size_t columns = kTopPeerColumns + more;
    const SessionRates rates = rates_of(shown, now.taken_unix_ns, earlier);
    const bool has_rates = earlier != nullptr;
    table.add_row({peer.size() <= columns ? peer : ".." + peer.substr(peer.size() - columns + 2),
                   owner_text(shown.label, shown.pid), format_duration(shown.srtt_ns),
                   has_rates ? format_rate(rates.received_bits_per_s) : "-",
                   has_rates ? format_rate(rates.sent_bits_per_s) : "-",
                   send_limit_name(send_limit(shown))});
  }
  return table;
}

/// The screen as it grows.
class Lines {
 public:
  explicit Lines(const TopView& view) : view_(view) {}

  void add(std::string text, bool is_title = false) {
    if (lines_.size() == view_.lines) return;
    lines_.push_back({cut(std::move(text), view_.columns), is_title});
  }
  /// The title and the first rows, and how many of `count` there are besides.
  void add_table(const TextTable& table, size_t count, size_t rows_max, const char* noun) {
    const std::string text = table.text();
    const size_t shown = count <= rows_max ? count : rows_max - 1;
    size_t begin = 0;
    for (size_t row = 0; row <= shown; ++row) {
      const size_t end = text.find('\n', begin);
      add(text.substr(begin, end - begin), row == 0);
      begin = end + 1;
    }
    if (shown < count) add("and " + std::to_string(count - shown) + " more " + noun);
  }
  size_t left() const { return view_.lines - lines_.size(); }
  std::vector<TopLine> take() { return std::move(lines_); }

 private:
  const TopView& view_;
  std::vector<TopLine> lines_;
};

}  // namespace

const char* order_name(Order order) {
  const auto found = std::ranges::find(kOrders, order, &std::pair<Order, const char*>::first);
  return found != std::end(kOrders) ? found->second : "";
}

Order order_after(Order order) {
  const auto found = std::ranges::find(kOrders, order, &std::pair<Order, const char*>::first);
  const bool is_last = found == std::end(kOrders) || found + 1 == std::end(kOrders);
  return is_last ? kOrders[0].first : (found + 1)->first;
}

std::vector<TopLine> top_screen(const Snapshot& now, const Snapshot* earlier, const TopView& view) {
  const Rates rates(now, earlier);
  Lines lines(view);
  lines.add(headline(now));
  const size_t part = std::max<size_t>(view.lines / 6, 2);
  if (now.is_domain) {
    const std::string text = kNotShown;
    lines.add("workers and ports: " + text.substr(0, text.find('\n')));
  } else {
    lines.add(drops_text(now, earlier, rates));
    lines.add_table(workers_table(now, earlier, rates, part), now.workers.size(), part, "workers");
    lines.add_table(ports_table(now, earlier, rates), now.ports.size(), part, "ports");
  }
  const TextTable clients = clients_table(now, earlier);
  lines.add_table(clients, clients.row_count(), part, "clients");
  if (lines.left() < 4) return lines.take();
  size_t total = 0;
  const TextTable sessions = sessions_table(now, earlier, view, total);
  lines.add_table(sessions, total, lines.left() - 2, "sessions");
  while (lines.left() > 1) lines.add("");
  lines.add(std::string("q quit   s sort, now by ") + order_name(view.order));
  return lines.take();
}

}  // namespace lyre::tools
