#include "tools/lyre/look.h"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

constexpr std::chrono::seconds kRateInterval{1};

Snapshot look(const GlobalOptions& globals) { return segment_of(globals).look(); }

nlohmann::ordered_json envelope(const Snapshot& now, const Snapshot* earlier,
                                nlohmann::ordered_json content) {
  nlohmann::ordered_json out = {{"taken_unix_ns", now.taken_unix_ns}};
  if (earlier != nullptr) out["interval_ns"] = now.taken_unix_ns - earlier->taken_unix_ns;
  if (now.is_domain) out["is_domain"] = true;
  move_members(past_json(now), out);
  move_members(std::move(content), out);
  return document_of(std::move(out));
}

void print(const GlobalOptions& globals, bool is_watch, const Display& display, const Snapshot& now,
           const Snapshot* earlier) {
  const Snapshot* same_run = of_same_run(now, earlier);
  if (earlier != nullptr && same_run == nullptr) {
    std::cerr << "lyre: the daemon was started again: its counters began at zero" << std::endl;
  }
  if (globals.is_json) {
    print_json(std::cout, envelope(now, same_run, display.json(now, same_run)), is_watch,
               display.json_items ? display.json_items(now, same_run) : JsonItems{});
  } else {
    std::cout << past_text(now) << display.text(now, same_run) << (is_watch ? "\n" : "");
  }
  std::cout << std::flush;
}

/// The segment is opened for each look: a mapped segment no longer changes when its daemon has
/// ended, and an open one is how an ended daemon is noticed.
void watch(const GlobalOptions& globals, double interval_s, const Display& display) {
  for (Snapshot earlier = look(globals);;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
    Snapshot now = look(globals);
    print(globals, true, display, now, &earlier);
    if (!std::cout) return;  // the reader closed the pipe
    earlier = std::move(now);
  }
}

}  // namespace

void show(const GlobalOptions& globals, std::optional<double> watch_s, const Display& display) {
  if (watch_s) return watch(globals, *watch_s, display);
  const Snapshot first = look(globals);
  // For people: current rates. A program that needs rates takes two snapshots itself.
  if (globals.is_json || globals.is_last || !display.measures_rates || first.sessions.empty()) {
    return print(globals, false, display, first, nullptr);
  }
  std::this_thread::sleep_for(kRateInterval);
  print(globals, false, display, look(globals), &first);
}

const Snapshot* of_same_run(const Snapshot& now, const Snapshot* earlier) {
  const bool is_same = earlier != nullptr && earlier->started_unix_ns == now.started_unix_ns &&
                       earlier->pid == now.pid && earlier->workers.size() == now.workers.size() &&
                       earlier->ports.size() == now.ports.size();
  return is_same ? earlier : nullptr;
}

StatsSegment segment_of(const GlobalOptions& globals) {
  return StatsSegment(globals.socket_or_default(),
                      globals.is_last ? StatsSegment::Whose::kLast : StatsSegment::Whose::kRunning);
}

std::string past_text(const Snapshot& snapshot) {
  if (!snapshot.is_past) return "";
  std::string out = "left by lyred " + snapshot.daemon_version + " '" + snapshot.daemon_name +
                    "', process " + std::to_string(snapshot.pid) + ", started " +
                    format_time(snapshot.started_unix_ns) + ", ";
  out += snapshot.has_stopped ? "stopped " : "died ";
  out += format_time(snapshot.taken_unix_ns);
  return out + "; times are by its clock: the wall clock at its start, without later steps\n";
}

nlohmann::ordered_json past_json(const Snapshot& snapshot) {
  if (!snapshot.is_past) return nlohmann::ordered_json::object();
  nlohmann::ordered_json daemon = {{"name", snapshot.daemon_name},
                                   {"version", snapshot.daemon_version},
                                   {"pid", snapshot.pid},
                                   {"started_unix_ns", snapshot.started_unix_ns},
                                   {"ended_unix_ns", snapshot.taken_unix_ns},
                                   {"has_stopped", snapshot.has_stopped}};
  return {{"last_daemon", std::move(daemon)}};
}

double per_second(uint64_t before, uint64_t after, int64_t interval_ns) {
  if (interval_ns <= 0 || after < before) return 0;
  return 1e9 * static_cast<double>(after - before) / static_cast<double>(interval_ns);
}

}  // namespace lyre::tools
