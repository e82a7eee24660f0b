#include <string>

#include "tools/lyre/metrics/families.h"
#include "tools/lyre/metrics/family_list.h"

namespace lyre::tools {
namespace {

using prometheus::MetricFamily;

const char* direction_text(bool is_sender) { return is_sender ? "send" : "receive"; }

/// In place of a total of each comm: totals fall when a comm ends.
std::string growth_help(const std::string& what) {
  return what + ", since this exporter started, while it saw the comms; see lyre_comms";
}

void add_group_counts(FamilyList& out, const CommGroup& group, const Labels& labels) {
  struct Row {
    CommCounter counter;
    const char* name;
    const char* what;
  };
  static constexpr Row kRows[kCommCounterCount] = {
      {kMovedBytes, "lyre_comms_moved_bytes_total", "Bytes of messages that are done"},
      {kMessages, "lyre_comms_messages_total", "Messages that are done"},
      {kSentAgainBytes, "lyre_comms_sent_again_bytes_total",
       "Bytes sent again over another stream"},
      {kStreamsRemade, "lyre_comms_streams_remade_total", "Streams that were replaced"},
      {kCopiedBytes, "lyre_comms_copied_bytes_total", "Payload that processes copied"},
      {kQueuePairsLost, "lyre_comms_queue_pairs_lost_total", "Queue pairs that comms lost"},
  };
  for (const Row& row : kRows) {
    out.counter(row.name, growth_help(row.what), labels, group.counts[row.counter]);
  }
}

void add_group(FamilyList& out, const CommGroupKey& key, const CommGroup& group) {
  const Labels labels = {
      {"uid", key.uid}, {"program", key.program}, {"direction", direction_text(key.is_sender)}};
  out.gauge("lyre_comms",
            "NCCL's connections over Lyre of a user's programs of one name. Names over a limit are "
            "added up as \"other\"",
            labels, static_cast<double>(group.comms));
  out.gauge("lyre_comms_failed", "Those of them that gave up", labels,
            static_cast<double>(group.failed));
  out.gauge("lyre_comms_streams_missing", "Streams that they are to have and do not have", labels,
            static_cast<double>(group.streams_missing));
  out.gauge("lyre_comms_queue_pairs_up", "Queue pairs of RDMA devices that they have", labels,
            static_cast<double>(group.queue_pairs_up));
  out.gauge("lyre_comms_outstanding_bytes", "Bytes of their requests that are not done", labels,
            group.outstanding_bytes);
  out.gauge("lyre_comms_oldest_request_seconds",
            "Age of the oldest one of their requests that is not done", labels,
            static_cast<double>(group.oldest_request_ns) / 1e9);
  add_group_counts(out, group, labels);
}

void add_comm(FamilyList& out, const CommsSnapshot& comms, const CommsOfProcess& process,
              const nccl_abi::CommView& view) {
  const Labels labels = {{"uid", std::to_string(process.uid)},
                         {"program", printable(process.program)},
                         {"pid", std::to_string(process.pid)},
                         {"comm", comm_id_text(view)},
                         {"direction", direction_text(view.is_sender != 0)},
                         {"peer_host", label_text(view.peer_host)}};
  out.counter("lyre_comm_moved_bytes_total", "Bytes of messages that are done", labels,
              static_cast<double>(view.bytes));
  out.counter("lyre_comm_messages_total", "Messages that are done", labels,
              static_cast<double>(view.messages));
  out.counter("lyre_comm_sent_again_bytes_total", "Bytes sent again over another stream", labels,
              static_cast<double>(view.again_bytes));
  out.counter("lyre_comm_streams_remade_total", "Streams that were replaced", labels, view.redials);
  out.counter("lyre_comm_copied_bytes_total", "Payload that the process copied", labels,
              static_cast<double>(view.copied_bytes));
  out.gauge("lyre_comm_queue_pairs_up", "Queue pairs of RDMA devices that the comm has", labels,
            view.queue_pairs_up);
  out.counter("lyre_comm_queue_pairs_lost_total", "Queue pairs that the comm lost", labels,
              static_cast<double>(view.queue_pairs_lost));
  out.gauge("lyre_comm_streams", "Streams that the comm is to have", labels, view.streams);
  out.gauge("lyre_comm_streams_up", "Streams that the comm has", labels, view.streams_up);
  out.gauge("lyre_comm_outstanding_bytes", "Bytes of requests that are not done", labels,
            static_cast<double>(view.outstanding_bytes));
  out.gauge("lyre_comm_oldest_request_seconds", "Age of the oldest request that is not done",
            labels, static_cast<double>(oldest_age_ns(comms, view)) / 1e9);
  out.gauge("lyre_comm_failed", "1 after it gave up", labels, view.has_failed != 0 ? 1 : 0);
}

double comms_not_shown(const CommsSnapshot& comms) {
  double total = 0;
  for (const CommsOfProcess& process : comms.processes) total += process.not_shown;
  return total;
}

}  // namespace

std::vector<MetricFamily> metrics_of(const CommsSnapshot& comms, const CommGroups& groups) {
  FamilyList out;
  out.gauge("lyre_telemetry_files_left_out", "Telemetry files of NCCL processes over the limits",
            {}, static_cast<double>(comms.files_left_out));
  out.gauge("lyre_telemetry_files_of_other_releases",
            "Telemetry files of NCCL processes with a plugin of a release that cannot be read", {},
            static_cast<double>(comms.files_of_other_releases));
  out.gauge("lyre_telemetry_files_not_read",
            "Telemetry files of NCCL processes, ended ones too, that this server may not read", {},
            static_cast<double>(comms.files_not_read));
  out.gauge("lyre_telemetry_directories_not_read",
            "Directories with telemetry of NCCL processes that cannot be read", {},
            static_cast<double>(comms.directories_not_read.size()));
  out.gauge("lyre_telemetry_comms_not_shown",
            "NCCL's connections over Lyre for which their processes' files have no room", {},
            comms_not_shown(comms));
  for (const auto& [key, group] : groups.groups()) add_group(out, key, group);
  return out.take();
}

std::vector<MetricFamily> metrics_of_each(const CommsSnapshot& comms) {
  FamilyList out;
  for (const CommsOfProcess& process : comms.processes) {
    for (const nccl_abi::CommView& view : process.comms) add_comm(out, comms, process, view);
  }
  return out.take();
}

}  // namespace lyre::tools
