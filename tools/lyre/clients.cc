#include "tools/lyre/clients.h"

#include <algorithm>
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

/// The accounts of all workers added up, by context. A listener is at every worker, and counts
/// once.
std::map<uint32_t, channel::ClientView> sums(const Snapshot& snapshot) {
  std::map<uint32_t, channel::ClientView> out;
  for (const channel::ClientView& view : snapshot.client_views) {
    const auto [at, is_new] = out.emplace(view.context, view);
    if (is_new) continue;
    channel::ClientView& sum = at->second;
    sum.sessions += view.sessions;
    sum.listeners = std::max(sum.listeners, view.listeners);
    sum.sends_under_way += view.sends_under_way;
    sum.sends_max += view.sends_max;
    sum.rx_slots_held += view.rx_slots_held;
    sum.rx_slots_lent += view.rx_slots_lent;
    sum.rx_slots_max += view.rx_slots_max;
  }
  return out;
}

/// What the open sessions of a client moved a second since `earlier`. Sessions name their owner by
/// label and process.
SessionRates rates_of_client(const channel::ClientView& client, const Snapshot& snapshot,
                             const Snapshot* earlier) {
  SessionRates sum;
  for (const channel::SessionView& view : snapshot.sessions) {
    const bool is_its = view.is_listener == 0 && view.pid == client.pid &&
                        std::memcmp(view.label, client.label, sizeof view.label) == 0;
    if (!is_its) continue;
    const SessionRates rates = rates_of(view, earlier);
    sum.sent_bits_per_s += rates.sent_bits_per_s;
    sum.received_bits_per_s += rates.received_bits_per_s;
  }
  return sum;
}

nlohmann::ordered_json account_json(const channel::ClientView& view) {
  return {{"sessions", view.sessions},
          {"listeners", view.listeners},
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

}  // namespace

std::string clients_text(const Snapshot& snapshot, const Snapshot* earlier) {
  using Align = TextTable::Align;
  TextTable table;
  table.add_column("client");
  for (const char* title : {"uid", "sessions", "listeners", "sends", "of", "slots", "lent", "of"}) {
    table.add_column(title, Align::kRight);
  }
  if (earlier != nullptr) {
    for (const char* title : {"sent", "received"}) table.add_column(title, Align::kRight);
  }
  table.add_column("received bytes");
  for (const auto& [context, view] : sums(snapshot)) {
    std::vector<std::string> cells{label_of(view) + "/" + std::to_string(view.pid),
                                   std::to_string(view.uid),
                                   std::to_string(view.sessions),
                                   std::to_string(view.listeners),
                                   std::to_string(view.sends_under_way),
                                   std::to_string(view.sends_max),
                                   std::to_string(view.rx_slots_held),
                                   std::to_string(view.rx_slots_lent),
                                   std::to_string(view.rx_slots_max)};
    if (earlier != nullptr) {
      const SessionRates rates = rates_of_client(view, snapshot, earlier);
      cells.push_back(format_rate(rates.sent_bits_per_s));
      cells.push_back(format_rate(rates.received_bits_per_s));
    }
    cells.emplace_back(view.is_lent != 0 ? "lent" : "copied");
    table.add_row(std::move(cells));
  }
  return table.is_empty() ? "no clients\n" : table.text();
}

nlohmann::ordered_json clients_json(const Snapshot& snapshot, const Snapshot* earlier) {
  nlohmann::ordered_json out = {{"clients", nlohmann::ordered_json::array()}};
  for (const auto& [context, sum] : sums(snapshot)) {
    out["clients"].push_back(client_json(snapshot, earlier, sum));
  }
  return out;
}

void run_clients(const GlobalOptions& globals, std::optional<double> watch_s) {
  show(globals, watch_s, {.text = clients_text, .json = clients_json});
}

}  // namespace lyre::tools
