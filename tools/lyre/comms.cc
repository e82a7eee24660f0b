#include "tools/lyre/comms.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tools/lyre/failure.h"
#include "tools/lyre/json_document.h"
#include "tools/lyre/printable.h"
#include "tools/lyre/telemetry_file.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

using nccl_abi::CommView;
using nccl_abi::TelemetryHeader;

// The plugin writes five times a second, also when it is idle.
constexpr int64_t kOldNs = 5'000'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;

constexpr std::array<const char*, nccl_abi::kWaitsForCount> kWaits = {
    "-",           "network",          "peer's process", "peer's receive",
    "peer's data", "a new connection", "local daemon"};

const char* waits_for(const CommView& view) {
  const auto index = static_cast<uint32_t>(view.waits_for);
  return index < kWaits.size() ? kWaits[index] : "?";
}

template <size_t kBytes>
std::string text_of(const char (&field)[kBytes]) {
  return printable(std::string(field, ::strnlen(field, kBytes)));
}

/// For how long the process has written nothing; 0: for less than kOldNs, or it never wrote.
int64_t silent_ns(const TelemetryHeader& header, int64_t now_ns) {
  const int64_t written_ns = header.written_ns.load(std::memory_order_relaxed);
  return written_ns > 0 && written_ns < now_ns - kOldNs ? now_ns - written_ns : 0;
}

/// False when its process has ended. A stopped process writes nothing, and holds the file's lock.
bool is_live(const TelemetryFile& file, int64_t now_ns) {
  const TelemetryHeader& header = file.header();
  const bool is_fresh = header.written_ns.load(std::memory_order_relaxed) >= now_ns - kOldNs;
  return is_fresh || (silent_ns(header, now_ns) > 0 && file.is_locked());
}

CommsOfProcess process_of(const TelemetryFile& file, int64_t now_ns) {
  const TelemetryHeader& header = file.header();
  return {.uid = file.owner(),
          .pid = header.pid,
          .program = text_of(header.program),
          .host = text_of(header.host),
          .socket = text_of(header.socket),
          .foreign = header.foreign.load(std::memory_order_relaxed),
          .last_foreign = text_of(header.last_foreign),
          .verbs = text_of(header.verbs),
          .not_shown = header.comms_not_shown.load(std::memory_order_relaxed),
          .silent_ns = silent_ns(header, now_ns),
          .comms = {}};
}

/// Reads files within the limits of one look.
class CommsReader {
 public:
  explicit CommsReader(int64_t now_ns) : now_ns_(now_ns) {}

  void read(const std::string& path) {
    const TelemetryFile file(path);
    if (file.is_denied()) ++files_not_read_;
    if (!file.is_open()) return;
    if (file.is_known()) return read_known(path, file);
    if (file.is_locked()) ++files_of_other_releases_;
  }

  /// In the order of paths.
  CommsSnapshot take() {
    CommsSnapshot out{.at_ns = now_ns_,
                      .files_left_out = files_left_out_,
                      .files_of_other_releases = files_of_other_releases_,
                      .files_not_read = files_not_read_};
    for (auto& [path, process] : processes_) out.processes.push_back(std::move(process));
    return out;
  }

 private:
  struct Taken {
    uint32_t files = 0;
    uint32_t comms = 0;
  };

  void read_known(const std::string& path, const TelemetryFile& file) {
    if (!is_live(file, now_ns_)) return;
    Taken& of_uid = of_uids_[file.owner()];
    if (of_uid.files >= kTelemetryFilesPerUidMax || of_uid.comms >= kTelemetryCommsPerUidMax ||
        all_.files >= kTelemetryFilesMax || all_.comms >= kTelemetryCommsMax) {
      ++files_left_out_;
      return;
    }
    CommsOfProcess process = process_of(file, now_ns_);
    const uint32_t used = read_slots(file, process.comms);
    for (Taken* taken : {&of_uid, &all_}) {
      ++taken->files;
      taken->comms += used;
    }
    processes_.insert_or_assign(path, std::move(process));
  }

  /// Returns how many are used: one that changes during each attempt costs the most time.
  static uint32_t read_slots(const TelemetryFile& file, std::vector<CommView>& out) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < file.header().slots; ++i) {
      if (!file.is_used(i)) continue;
      ++used;
      if (const std::optional<CommView> view = file.read_slot(i)) out.push_back(*view);
    }
    return used;
  }

  const int64_t now_ns_;
  std::map<uid_t, Taken> of_uids_;
  Taken all_;
  std::map<std::string, CommsOfProcess> processes_;
  uint64_t files_left_out_ = 0;
  uint64_t files_of_other_releases_ = 0;
  uint64_t files_not_read_ = 0;
};

const CommView* find_earlier(const CommsSnapshot* earlier, const CommsOfProcess& owner,
                             const CommView& view) {
  if (earlier == nullptr) return nullptr;
  for (const CommsOfProcess& process : earlier->processes) {
    if (process.uid != owner.uid || process.pid != owner.pid) continue;
    for (const CommView& other : process.comms) {
      if (other.is_sender == view.is_sender && std::equal(view.id, view.id + 16, other.id)) {
        return &other;
      }
    }
  }
  return nullptr;
}

std::optional<double> rate_of(const CommsSnapshot& snapshot, const CommsSnapshot* earlier,
                              const CommsOfProcess& owner, const CommView& view) {
  const CommView* before = find_earlier(earlier, owner, view);
  if (before == nullptr) return std::nullopt;
  // Two looks that are 500 ms apart may read what was written 400 or 600 ms apart. A release that
  // does not tell when it wrote has the time between the looks.
  const bool is_time_known = before->written_ns > 0 && view.written_ns > 0;
  const int64_t interval_ns =
      is_time_known ? view.written_ns - before->written_ns : snapshot.at_ns - earlier->at_ns;
  if (view.bytes < before->bytes || interval_ns <= 0) return std::nullopt;
  return 8.0 * static_cast<double>(view.bytes - before->bytes) * kNsPerSecond /
         static_cast<double>(interval_ns);
}

// Collectives have numbers, sends and receives do not.
std::string operation_text(const CommView& view) {
  std::string text = text_of(view.operation);
  if (view.operation_number >= 0) text += " " + std::to_string(view.operation_number);
  return text.empty() ? "-" : text;
}

std::string ranks_text(const CommView& view) {
  if (view.rank < 0 || view.peer_rank < 0) return "-";
  return std::to_string(view.rank) + (view.is_sender != 0 ? " > " : " < ") +
         std::to_string(view.peer_rank);
}

/// The lines above the table of a process.
std::string heading_of(const CommsOfProcess& process) {
  std::string out = process.program + "/" + std::to_string(process.pid) + " on " + process.host +
                    ", daemon " + process.socket + "\n";
  if (process.foreign > 0) {
    out += std::to_string(process.foreign) + " foreign connections refused, the last from " +
           process.last_foreign + "\n";
  }
  if (!process.verbs.empty()) out += "RDMA not used when it attached: " + process.verbs + "\n";
  if (process.not_shown > 0) {
    out += std::to_string(process.not_shown) +
           " connections of this process are not shown: its file has no room for them\n";
  }
  if (process.silent_ns > 0) {
    out += "has written nothing for " + format_duration(process.silent_ns) + " (stopped?)\n";
  }
  return out;
}

std::string text_of(const CommsSnapshot& snapshot, const CommsSnapshot* earlier,
                    const CommsOfProcess& process) {
  TextTable table;
  using Align = TextTable::Align;
  for (const char* title : {"comm", "way", "ranks", "peer", "streams"}) table.add_column(title);
  for (const char* title : {"moved", "rate", "messages", "requests", "under way", "oldest"}) {
    table.add_column(title, Align::kRight);
  }
  for (const char* title : {"waits for", "operation", "path"}) table.add_column(title);
  for (const CommView& view : process.comms) {
    const std::optional<double> rate = rate_of(snapshot, earlier, process, view);
    table.add_row({comm_id_text(view), view.is_sender != 0 ? "to" : "from", ranks_text(view),
                   text_of(view.peer_host) + "/" + std::to_string(view.peer_pid),
                   std::to_string(view.streams_up) + "/" + std::to_string(view.streams),
                   format_bytes(view.bytes), rate ? format_rate(*rate) : "-",
                   std::to_string(view.messages), std::to_string(view.requests),
                   format_bytes(view.outstanding_bytes),
                   view.oldest_since_ns > 0 ? format_duration(oldest_age_ns(snapshot, view)) : "-",
                   view.has_failed != 0 ? "failed" : waits_for(view), operation_text(view),
                   text_of(view.path)});
  }
  return heading_of(process) + (table.is_empty() ? "no comms\n" : table.text());
}

nlohmann::ordered_json comm_json(const CommsSnapshot& snapshot, const CommsSnapshot* earlier,
                                 const CommsOfProcess& owner, const CommView& view) {
  nlohmann::ordered_json out = {{"id", comm_id_text(view)},
                                {"communicator", view.communicator},
                                {"direction", view.is_sender != 0 ? "send" : "receive"},
                                {"peer_host", text_of(view.peer_host)},
                                {"peer_pid", view.peer_pid},
                                {"peer_address", text_of(view.peer_address)},
                                {"path", text_of(view.path)},
                                {"streams", view.streams},
                                {"streams_up", view.streams_up},
                                {"streams_remade", view.redials},
                                {"messages", view.messages},
                                {"bytes", view.bytes},
                                {"sent_again_bytes", view.again_bytes},
                                {"copied_bytes", view.copied_bytes},
                                {"queue_pairs_up", view.queue_pairs_up},
                                {"queue_pairs_lost", view.queue_pairs_lost},
                                {"requests", view.requests},
                                {"outstanding_bytes", view.outstanding_bytes},
                                {"unacknowledged_bytes", view.unacked_bytes},
                                {"oldest_request_ns", oldest_age_ns(snapshot, view)},
                                {"waits_for", waits_for(view)},
                                {"failed", view.has_failed != 0}};
  if (view.operation[0] != '\0') out["operation"] = text_of(view.operation);
  if (view.operation_number >= 0) out["operation_number"] = view.operation_number;
  if (view.rank >= 0) out["rank"] = view.rank;
  if (view.peer_rank >= 0) out["peer_rank"] = view.peer_rank;
  if (view.channel >= 0) out["channel"] = view.channel;
  if (const std::optional<double> rate = rate_of(snapshot, earlier, owner, view)) {
    out["bits_per_s"] = *rate;
  }
  return out;
}

std::string left_out_text(uint64_t files) {
  if (files == 0) return "";
  return std::to_string(files) + " telemetry files left out: at most " +
         std::to_string(kTelemetryFilesPerUidMax) + " of a user and " +
         std::to_string(kTelemetryFilesMax) + " of all are read, with " +
         std::to_string(kTelemetryCommsPerUidMax) + " and " + std::to_string(kTelemetryCommsMax) +
         " comms\n";
}

std::string other_releases_text(uint64_t files) {
  if (files == 0) return "";
  return std::to_string(files) +
         " telemetry files left out: written by plugins of releases that this lyre cannot read\n";
}

std::string not_read_text(uint64_t files) {
  if (files == 0) return "";
  return std::to_string(files) + " telemetry files left out: this user may not read them\n";
}

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void print(const GlobalOptions& globals, bool is_watch, const CommsSnapshot& snapshot,
           const CommsSnapshot* earlier) {
  if (globals.is_json) {
    std::cout << json_text(document_of(comms_json(snapshot, earlier)), is_watch) << std::flush;
  } else {
    std::cout << comms_text(snapshot, earlier) << (is_watch ? "\n" : "") << std::flush;
  }
}

}  // namespace

int64_t oldest_age_ns(const CommsSnapshot& snapshot, const CommView& view) {
  return view.oldest_since_ns > 0 ? std::max<int64_t>(snapshot.at_ns - view.oldest_since_ns, 0) : 0;
}

std::string comm_id_text(const CommView& view) {
  std::string text;
  for (size_t i = 0; i < 4; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", view.id[i]);
    text += byte;
  }
  return text;
}

std::vector<std::string> telemetry_directories(const std::string& named) {
  if (!named.empty()) return {named};
  return {nccl_abi::kTelemetryDirectory, nccl_abi::kContainersTelemetryDirectory};
}

void check_telemetry_directory(const std::string& named) {
  std::error_code error;
  if (named.empty() || named == nccl_abi::kNoTelemetry) return;
  std::filesystem::directory_iterator(named, error);
  if (!error) return;
  throw Failure(kExitUsage, "cannot read the directory " + named + ": " + error.message() +
                                ", allowed: a directory where the processes of a job write");
}

CommsSnapshot read_comms(const std::vector<std::string>& directories, int64_t now_ns) {
  CommsReader reader(now_ns);
  std::vector<std::string> not_read;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      if (entry.path().filename().string().starts_with(nccl_abi::kTelemetryPrefix)) {
        reader.read(entry.path());
      }
    }
    const bool is_unreadable = error && error != std::errc::no_such_file_or_directory;
    if (is_unreadable) not_read.push_back(directory + ": " + error.message());
  }
  CommsSnapshot out = reader.take();
  out.directories_not_read = std::move(not_read);
  return out;
}

std::string comms_text(const CommsSnapshot& snapshot, const CommsSnapshot* earlier) {
  std::string out;
  for (const CommsOfProcess& process : snapshot.processes) {
    out += (out.empty() ? "" : "\n") + text_of(snapshot, earlier, process);
  }
  const std::string left_out = other_releases_text(snapshot.files_of_other_releases) +
                               not_read_text(snapshot.files_not_read) +
                               left_out_text(snapshot.files_left_out);
  if (out.empty() && left_out.empty() && snapshot.directories_not_read.empty()) {
    out = "no process here uses the NCCL plugin\n";
  }
  for (const std::string& directory : snapshot.directories_not_read) {
    out +=
        "processes that write there are not shown: cannot read the directory " + directory + "\n";
  }
  return out + left_out;
}

nlohmann::ordered_json comms_json(const CommsSnapshot& snapshot, const CommsSnapshot* earlier) {
  nlohmann::ordered_json out = {{"processes", nlohmann::ordered_json::array()},
                                {"files_left_out", snapshot.files_left_out},
                                {"files_of_other_releases", snapshot.files_of_other_releases},
                                {"files_not_read", snapshot.files_not_read},
                                {"directories_not_read", snapshot.directories_not_read}};
  for (const CommsOfProcess& process : snapshot.processes) {
    nlohmann::ordered_json entry = {{"uid", process.uid},
                                    {"pid", process.pid},
                                    {"program", process.program},
                                    {"host", process.host},
                                    {"daemon_socket", process.socket},
                                    {"foreign_refused", process.foreign},
                                    {"comms", nlohmann::ordered_json::array()}};
    if (process.foreign > 0) entry["last_foreign"] = process.last_foreign;
    if (!process.verbs.empty()) entry["rdma_not_used"] = process.verbs;
    if (process.not_shown > 0) entry["comms_not_shown"] = process.not_shown;
    if (process.silent_ns > 0) entry["silent_ns"] = process.silent_ns;
    for (const CommView& view : process.comms) {
      entry["comms"].push_back(comm_json(snapshot, earlier, process, view));
    }
    out["processes"].push_back(std::move(entry));
  }
  return out;
}

void run_comms(const GlobalOptions& globals, const std::vector<std::string>& directories,
               std::optional<double> watch_s) {
  // A rate needs two readings; the plugin writes five times a second.
  const auto pause = std::chrono::duration<double>(watch_s.value_or(0.5));
  CommsSnapshot earlier = read_comms(directories, monotonic_ns());
  do {
    std::this_thread::sleep_for(pause);
    CommsSnapshot snapshot = read_comms(directories, monotonic_ns());
    print(globals, watch_s.has_value(), snapshot, &earlier);
    earlier = std::move(snapshot);
  } while (watch_s && std::cout);
}

}  // namespace lyre::tools
