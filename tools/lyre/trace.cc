#include "tools/lyre/trace.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tools/lyre/failure.h"
#include "tools/lyre/json_document.h"
#include "tools/lyre/look.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

struct KindText {
  const char* key;
  const char* first;
  const char* second;
  const char* text;
};
constexpr KindText kKinds[] = {
#define LYRE_X(name, key, first, second, text) {key, first, second, text},
    LYRE_TRACE_KINDS(LYRE_X)
#undef LYRE_X
};

/// By channel::EndStatus.
struct StatusText {
  const char* key;
  const char* text;
};
constexpr StatusText kStatuses[] = {
    {"ok", "in order"},
    {"reset", "reset by the peer"},
    {"refused", "refused by the peer"},
    {"timed_out", "the peer did not answer"},
    {"unreachable", "the peer cannot be reached"},
    {"address_in_use", "the address is in use"},
    {"address_unknown", "not an address of this host"},
    {"no_resources", "taken from a client that kept too many receive slots"},
    {"aborted", "aborted on this side"},
    {"shutdown", "the daemon stopped"},
    {"deregistered", "its memory was deregistered before the peer had it"},
    {"no_route", "no route leads to the peer"},
    {"no_neighbour", "neither the peer nor the gateway answers ARP or NDP"},
    {"forbidden", "its domain may not talk to that peer"},
    {"icmp_error", "the network says that the peer cannot be reached (ICMP)"},
    {"address_lost", "another host has the local address"},
};

StatusText status_text(uint32_t status) {
  return status < std::size(kStatuses) ? kStatuses[status] : StatusText{"?", "?"};
}

const KindText* kind_of(const channel::TraceEvent& event) {
  const auto index = static_cast<size_t>(event.kind);
  return index < std::size(kKinds) ? &kKinds[index] : nullptr;
}

/// The number as its key says: a name, a size, a time, or what it is.
nlohmann::ordered_json value_of(std::string_view key, uint32_t number) {
  if (key == "state") return tcp_state_name(number);
  if (key == "status") return status_text(number).key;
  if (key == "reason") return number < kDropCount ? kDropTexts[number].key : "?";
  if (key == "is_passive") return number != 0;
  return number;
}

/// "cwnd 14.3 KiB" of the key cwnd_bytes.
std::string number_text(std::string_view key, uint32_t number) {
  if (key == "is_passive") return number != 0 ? "by the peer" : "by this side";
  if (key == "state") return tcp_state_name(number);
  if (key == "status") return status_text(number).text;
  if (key == "reason") return number < kDropCount ? kDropTexts[number].text : "?";
  std::string name(key);
  std::string value = std::to_string(number);
  const auto cut = [&name](std::string_view unit) {
    if (!name.ends_with(unit)) return false;
    name.resize(name.size() - unit.size());
    return true;
  };
  if (cut("_bytes")) value = number == UINT32_MAX ? "none" : format_bytes(number);
  if (cut("_us")) value = format_duration(int64_t{number} * 1000);
  std::ranges::replace(name, '_', ' ');
  return name + " " + value;
}

bool is_known(std::string_view key, uint32_t number) {
  return !key.empty() && (key != "mss_bytes" || number > 0);
}

std::string numbers_text(const channel::TraceEvent& event, const KindText& kind) {
  std::string out;
  if (is_known(kind.first, event.first)) out = number_text(kind.first, event.first);
  if (is_known(kind.second, event.second)) out += ", " + number_text(kind.second, event.second);
  return out;
}

std::string time_text(int64_t unix_us, const char* format) {
  const std::time_t seconds = unix_us / 1'000'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), format, &local);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%06d", static_cast<int>(unix_us % 1'000'000));
  return std::string(text.data(), length) + fraction;
}

std::string label_of(const channel::SessionView& view) {
  return std::string(view.label, ::strnlen(view.label, sizeof view.label));
}

std::string headline(const SessionTrace& trace) {
  const channel::SessionView& view = trace.session;
  std::string out = format_endpoint(view.local_address, view.local_port) + " -> " +
                    format_endpoint(view.remote_address, view.remote_port) + "  worker " +
                    std::to_string(view.worker) + "  " + owner_of(view) + "  ";
  return out + (trace.is_ended ? std::string("ended: ") + status_text(trace.status).text
                               : session_state_name(view));
}

std::string events_text(const std::vector<channel::TraceEvent>& events, int64_t clock_step_ns) {
  TextTable table;
  table.add_column("time");
  table.add_column("after", TextTable::Align::kRight);
  table.add_column("event");
  table.add_column("");
  int64_t before_us = events.empty() ? 0 : events.front().unix_us;
  for (const channel::TraceEvent& event : events) {
    const KindText* kind = kind_of(event);
    if (kind == nullptr) continue;
    table.add_row({time_text(event.unix_us + clock_step_ns / 1000, "%T"),
                   "+" + format_duration((event.unix_us - before_us) * 1000), kind->text,
                   numbers_text(event, *kind)});
    before_us = event.unix_us;
  }
  return table.text();
}

bool is_named(const channel::SessionView& view, const std::string& name) {
  return name == ":" + std::to_string(view.local_port) ||
         name == format_address(view.remote_address) ||
         name == format_endpoint(view.remote_address, view.remote_port) ||
         name == format_endpoint(view.local_address, view.local_port);
}

}  // namespace

IsTraceWanted traces_of(std::string session) {
  return [name = std::move(session)](const channel::SessionView& view, bool is_ended) {
    return name.empty() ? is_ended : is_named(view, name);
  };
}

void sort_by_end(std::vector<SessionTrace>& traces) {
  std::ranges::stable_sort(traces, {}, [](const SessionTrace& trace) {
    return trace.is_ended ? trace.ended_unix_ns : INT64_MAX;
  });
}

std::string trace_text(const std::vector<SessionTrace>& traces, int64_t clock_step_ns) {
  std::string out;
  for (const SessionTrace& trace : traces) {
    if (!out.empty()) out += "\n";
    out += headline(trace) + "\n" + events_text(trace.events, clock_step_ns);
    if (trace.events.empty()) out += "no events\n";
  }
  return out;
}

std::string ended_text(const std::vector<SessionTrace>& traces, int64_t clock_step_ns) {
  if (traces.empty()) return "no session ended badly\n";
  TextTable table;
  for (const char* title : {"ended", "local", "peer", "owner", "why"}) table.add_column(title);
  for (const SessionTrace& trace : traces) {
    const channel::SessionView& view = trace.session;
    table.add_row({time_text((trace.ended_unix_ns + clock_step_ns) / 1000, "%F %T"),
                   format_endpoint(view.local_address, view.local_port),
                   format_endpoint(view.remote_address, view.remote_port), owner_of(view),
                   status_text(trace.status).text});
  }
  return table.text();
}

nlohmann::ordered_json trace_json(const std::vector<SessionTrace>& traces) {
  auto sessions = nlohmann::ordered_json::array();
  for (const SessionTrace& trace : traces) {
    const channel::SessionView& view = trace.session;
    nlohmann::ordered_json shown = {
        {"local", format_endpoint(view.local_address, view.local_port)},
        {"remote", format_endpoint(view.remote_address, view.remote_port)},
        {"worker", view.worker},
        {"pid", view.pid},
        {"label", label_of(view)},
        {"state", session_state_name(view)},
        {"opened_unix_ns", view.opened_unix_ns}};
    if (trace.is_ended) {
      shown["ended_unix_ns"] = trace.ended_unix_ns;
      shown["status"] = status_text(trace.status).key;
    }
    auto events = nlohmann::ordered_json::array();
    for (const channel::TraceEvent& event : trace.events) {
      const KindText* kind = kind_of(event);
      if (kind == nullptr) continue;
      nlohmann::ordered_json one = {{"unix_ns", event.unix_us * 1000}, {"event", kind->key}};
      for (const auto& [key, number] :
           {std::pair(kind->first, event.first), std::pair(kind->second, event.second)}) {
        if (is_known(key, number)) one[key] = value_of(key, number);
      }
      events.push_back(std::move(one));
    }
    shown["events"] = std::move(events);
    sessions.push_back(std::move(shown));
  }
  return {{"sessions", std::move(sessions)}};
}

void run_trace(const GlobalOptions& globals, const std::string& session) {
  const StatsSegment segment = segment_of(globals);
  auto traces = segment.traces(traces_of(session));
  sort_by_end(traces);
  if (traces.empty() && !session.empty()) {
    throw Failure(kExitFailure, "no session '" + session +
                                    "': `lyre sessions` lists those that are open, `lyre trace` "
                                    "those that ended badly");
  }
  if (globals.is_json) {
    nlohmann::ordered_json content = past_json(segment.look());
    move_members(trace_json(traces), content);
    print_json(std::cout, document_of(std::move(content)), false);
  } else {
    const Snapshot now = segment.look();
    std::cout << past_text(now)
              << (session.empty() ? ended_text(traces, now.clock_step_ns)
                                  : trace_text(traces, now.clock_step_ns));
  }
}

}  // namespace lyre::tools
