#include "tools/lyre/clients.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/lyre/text_table.h"

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

nlohmann::ordered_json account_json(const channel::ClientView& view) {
  return {{"sessions", view.sessions},
          {"listeners", view.listeners},
          {"sends_under_way", view.sends_under_way},
          {"sends_max", view.sends_max},
          {"rx_slots_held", view.rx_slots_held},
          {"rx_slots_lent", view.rx_slots_lent},
          {"rx_slots_max", view.rx_slots_max}};
}

}  // namespace

std::string clients_text(const Snapshot& snapshot) {
  using Align = TextTable::Align;
  TextTable table;
  table.add_column("client");
  for (const char* title : {"uid", "sessions", "listeners", "sends", "of", "slots", "lent", "of"}) {
    table.add_column(title, Align::kRight);
  }
  table.add_column("received bytes");
  for (const auto& [context, view] : sums(snapshot)) {
    table.add_row({label_of(view) + "/" + std::to_string(view.pid), std::to_string(view.uid),
                   std::to_string(view.sessions), std::to_string(view.listeners),
                   std::to_string(view.sends_under_way), std::to_string(view.sends_max),
                   std::to_string(view.rx_slots_held), std::to_string(view.rx_slots_lent),
                   std::to_string(view.rx_slots_max), view.is_lent != 0 ? "lent" : "copied"});
  }
  return table.is_empty() ? "no clients\n" : table.text();
}

nlohmann::ordered_json clients_json(const Snapshot& snapshot) {
  nlohmann::ordered_json out = {{"clients", nlohmann::ordered_json::array()}};
  for (const auto& [context, sum] : sums(snapshot)) {
    nlohmann::ordered_json client = {{"label", label_of(sum)},
                                     {"pid", sum.pid},
                                     {"uid", sum.uid},
                                     {"is_lent", sum.is_lent != 0}};
    client.update(account_json(sum));
    client["workers"] = nlohmann::ordered_json::array();
    for (const channel::ClientView& view : snapshot.client_views) {
      if (view.context != context) continue;
      nlohmann::ordered_json account = {{"worker", view.worker}};
      account.update(account_json(view));
      client["workers"].push_back(account);
    }
    out["clients"].push_back(client);
  }
  return out;
}

void run_clients(const GlobalOptions& globals) {
  const Snapshot snapshot = StatsSegment(globals.socket_or_default()).look();
  if (globals.is_json) {
    std::cout << clients_json(snapshot).dump(2) << std::endl;
  } else {
    std::cout << clients_text(snapshot) << std::flush;
  }
}

}  // namespace lyre::tools
