#include "tools/lyre/clients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/lyre/look.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

std::string label_of(const channel::ClientView& view) {
  return std::string(view.label, ::strnlen(view.label, sizeof view.label));
}

using Views = std::map<uint32_t, channel::ClientView>;

/// The accounts of all workers added up, by context. A listener is at every worker, and counts
/// once, as memory does.
Views sums(const Snapshot& snapshot) {
  Views out;
  for (const channel::ClientView& view : snapshot.client_views) {
    const auto [at, is_new] = out.emplace(view.context, view);
    if (is_new) continue;
    channel::ClientView& sum = at->second;
    sum.sessions += view.sessions;
    sum.sessions_max += view.sessions_max;
    sum.user_sessions_max += view.user_sessions_max;
    sum.listeners = std::max(sum.listeners, view.listeners);
    sum.sends_under_way += view.sends_under_way;
    sum.sends_max += view.sends_max;
    sum.rx_slots_held += view.rx_slots_held;
    sum.rx_slots_lent += view.rx_slots_lent;
    sum.rx_slots_max += view.rx_slots_max;
    sum.regions = std::max(sum.regions, view.regions);
    sum.registered_bytes = std::max(sum.registered_bytes, view.registered_bytes);
  }
  return out;
}

/// The clients that share the limits of a user.
struct UserSum {
  channel::ClientView limits{};
  uint32_t contexts = 0;
  uint64_t sessions = 0;
  uint64_t listeners = 0;
  uint64_t regions = 0;
  uint64_t arena_bytes = 0;
  uint64_t registered_bytes = 0;
};

std::map<uint64_t, UserSum> users_of(const Views& clients) {
  std::map<uint64_t, UserSum> out;
  for (const auto& [context, view] : clients) {
    UserSum& sum = out[view.user];
    sum.limits = view;
    ++sum.contexts;
    sum.sessions += view.sessions;
    sum.listeners += view.listeners;
    sum.regions += view.regions;
    sum.arena_bytes += view.arena_bytes;
    sum.registered_bytes += view.registered_bytes;
  }
  return out;
}

/// The largest part of its limit that the client holds at a worker. Sums hide it: at other workers
/// the client may have nearly all slots, and holds none.
std::string fullest_text(const Snapshot& snapshot, uint32_t context) {
  double most = 0;
  for (const channel::ClientView& view : snapshot.client_views) {
    if (view.context == context) most = std::max(most, receive_limit_ratio(view));
  }
  return std::to_string(std::lround(100 * most)) + " %";
}

/// A uid, or a domain by its place in the configuration.
std::string user_text(uint64_t user) {
  constexpr uint64_t kDomains = uint64_t{1} << 32;
  if (user < kDomains) return "uid " + std::to_string(user);
  return "domain " + std::to_string(user - kDomains + 1);
}

/// What the open sessions of a client moved a second since `earlier`.
SessionRates rates_of_client(const channel::ClientView& client, const Snapshot& snapshot,
                             const Snapshot* earlier) {
  SessionRates sum;
  for (const channel::SessionView& view : snapshot.sessions) {
    if (view.is_listener != 0 || view.context != client.context) continue;
    const SessionRates rates = rates_of(view, snapshot.taken_unix_ns, earlier);
    sum.sent_bits_per_s += rates.sent_bits_per_s;
    sum.received_bits_per_s += rates.received_bits_per_s;
  }
  return sum;
}

nlohmann::ordered_json account_json(const channel::ClientView& view) {
  return {{"sessions", view.sessions},
          {"sessions_max", view.sessions_max},
          {"listeners", view.listeners},
          {"listeners_max", view.listeners_max},
          {"sends_under_way", view.sends_under_way},
          {"sends_max", view.sends_max},
          {"rx_slots_held", view.rx_slots_held},
          {"rx_slots_lent", view.rx_slots_lent},
          {"rx_slots_max", view.rx_slots_max}};
}

nlohmann::ordered_json client_json(const Snapshot& snapshot, const Snapshot* earlier,
                                   const channel::ClientView& sum) {
  nlohmann::ordered_json out = {
      {"label", label_of(sum)}, {"pid", sum.pid}, {"uid", sum.uid}, {"is_lent", sum.is_lent != 0}};
  out.update(account_json(sum));
  out.update({{"user", user_text(sum.user)},
              {"arena_bytes", sum.arena_bytes},
              {"regions", sum.regions},
              {"regions_max", sum.regions_max},
              {"registered_bytes", sum.registered_bytes},
              {"registered_bytes_max", sum.registered_bytes_max}});
  if (earlier != nullptr) {
    const SessionRates rates = rates_of_client(sum, snapshot, earlier);
    out["sent_bits_per_s"] = rates.sent_bits_per_s;
    out["received_bits_per_s"] = rates.received_bits_per_s;
  }
  out["workers"] = nlohmann::ordered_json::array();
  for (const channel::ClientView& view : snapshot.client_views) {
    if (view.context != sum.context) continue;
    nlohmann::ordered_json account = {{"worker", view.worker}};
    account.update(account_json(view));
    out["workers"].push_back(account);
  }
  return out;
}

nlohmann::ordered_json user_json(uint64_t user, const UserSum& sum) {
  return {{"user", user_text(user)},
          {"contexts", sum.contexts},
          {"contexts_max", sum.limits.user_contexts_max},
          {"sessions", sum.sessions},
          {"sessions_max", sum.limits.user_sessions_max},
          {"listeners", sum.listeners},
          {"listeners_max", sum.limits.user_listeners_max},
          {"regions", sum.regions},
          {"regions_max", sum.limits.user_regions_max},
          {"arena_bytes", sum.arena_bytes},
          {"arena_bytes_max", sum.limits.user_arena_bytes_max},
          {"registered_bytes", sum.registered_bytes},
          {"registered_bytes_max", sum.limits.user_registered_bytes_max}};
}

std::string client_text(const channel::ClientView& view) {
  return label_of(view) + "/" + std::to_string(view.pid);
}

/// Columns with numbers, each followed by one with its limit.
void add_limited_columns(TextTable& table, std::initializer_list<const char*> titles) {
  for (const char* title : titles) {
    table.add_column(title, TextTable::Align::kRight);
    table.add_column("of", TextTable::Align::kRight);
  }
}

std::string memory_text(const Views& clients) {
  TextTable table;
  table.add_column("client");
  table.add_column("arena", TextTable::Align::kRight);
  add_limited_columns(table, {"regions", "registered"});
  table.add_column("user");
  for (const auto& [context, view] : clients) {
    table.add_row({client_text(view), format_bytes(view.arena_bytes), std::to_string(view.regions),
                   std::to_string(view.regions_max), format_bytes(view.registered_bytes),
                   format_bytes(view.registered_bytes_max), user_text(view.user)});
  }
  return table.text();
}

std::string users_text(const Views& clients) {
  TextTable table;
  table.add_column("user");
  add_limited_columns(table,
                      {"contexts", "sessions", "listeners", "regions", "arenas", "registered"});
  for (const auto& [user, sum] : users_of(clients)) {
    table.add_row({user_text(user), std::to_string(sum.contexts),
                   std::to_string(sum.limits.user_contexts_max), std::to_string(sum.sessions),
                   std::to_string(sum.limits.user_sessions_max), std::to_string(sum.listeners),
                   std::to_string(sum.limits.user_listeners_max), std::to_string(sum.regions),
                   std::to_string(sum.limits.user_regions_max), format_bytes(sum.arena_bytes),
                   format_bytes(sum.limits.user_arena_bytes_max),
                   format_bytes(sum.registered_bytes),
                   format_bytes(sum.limits.user_registered_bytes_max)});
  }
  return table.text();
}

std::string places_text(const Views& clients, const Snapshot& snapshot, const Snapshot* earlier) {
  using Align = TextTable::Align;
  TextTable table;
  table.add_column("client");
  table.add_column("uid", Align::kRight);
  add_limited_columns(table, {"sessions", "listeners", "sends"});
  for (const char* title : {"slots", "lent", "of", "full"}) table.add_column(title, Align::kRight);
  if (earlier != nullptr) {
    for (const char* title : {"sent", "received"}) table.add_column(title, Align::kRight);
  }
  table.add_column("received bytes");
  for (const auto& [context, view] : clients) {
    std::vector<std::string> cells{client_text(view),
                                   std::to_string(view.uid),
                                   std::to_string(view.sessions),
                                   std::to_string(view.sessions_max),
                                   std::to_string(view.listeners),
                                   std::to_string(view.listeners_max),
                                   std::to_string(view.sends_under_way),
                                   std::to_string(view.sends_max),
                                   std::to_string(view.rx_slots_held),
                                   std::to_string(view.rx_slots_lent),
                                   std::to_string(view.rx_slots_max),
                                   fullest_text(snapshot, context)};
    if (earlier != nullptr) {
      const SessionRates rates = rates_of_client(view, snapshot, earlier);
      cells.push_back(format_rate(rates.sent_bits_per_s));
      cells.push_back(format_rate(rates.received_bits_per_s));
    }
    cells.emplace_back(view.is_lent != 0 ? "lent" : "copied");
    table.add_row(std::move(cells));
  }
  return table.text();
}

}  // namespace

double receive_limit_ratio(const channel::ClientView& view) {
  if (view.rx_slots_max == 0) return 0;
  return std::min(1.0, static_cast<double>(view.rx_slots_held) / view.rx_slots_max);
}

std::string clients_text(const Snapshot& snapshot, const Snapshot* earlier) {
  const Views clients = sums(snapshot);
  if (clients.empty()) return "no clients\n";
  return places_text(clients, snapshot, earlier) + "\n" + memory_text(clients) + "\n" +
         users_text(clients);
}

nlohmann::ordered_json clients_json(const Snapshot& snapshot, const Snapshot* earlier) {
  nlohmann::ordered_json out = {{"clients", nlohmann::ordered_json::array()}};
  const Views clients = sums(snapshot);
  for (const auto& [context, sum] : clients) {
    out["clients"].push_back(client_json(snapshot, earlier, sum));
  }
  out["users"] = nlohmann::ordered_json::array();
  for (const auto& [user, sum] : users_of(clients)) out["users"].push_back(user_json(user, sum));
  return out;
}

void run_clients(const GlobalOptions& globals, std::optional<double> watch_s) {
  show(globals, watch_s, {.text = clients_text, .json = clients_json});
}

}  // namespace lyre::tools
