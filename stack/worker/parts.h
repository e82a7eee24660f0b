#pragma once

#include <cstddef>

#include "stack/io/packet_io.h"
#include "stack/worker/announcements.h"
#include "stack/worker/context_lifecycle.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/icmp_input.h"
#include "stack/worker/inter_worker.h"
#include "stack/worker/invariant_checker.h"
#include "stack/worker/neighbourhood.h"
#include "stack/worker/packet_input.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/passive_open.h"
#include "stack/worker/port_holds.h"
#include "stack/worker/receive_pressure.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/region_lifecycle.h"
#include "stack/worker/segment_input.h"
#include "stack/worker/segment_output.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/stats_writer.h"
#include "stack/worker/submissions.h"
#include "stack/worker/transmission.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The objects that a worker's turn calls. A part refers to the tables and to the parts above it.
/// Thread: the worker's.
struct Parts {
  Parts(const WorkerConfig& config, io::PacketMemory& memory, size_t port_count, StatsBinding stats)
      : state(config, memory, port_count, stats) {}
  ~Parts() {
    for (const Port& port : state.ports) state.memory.release(port.waiting());
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  WorkerState state;
  ControlReplies replies{state};
  ReceivedPayload payload{state};
  PacketOutput output{state};
  SegmentOutput segment_output{state, output};
  PortHolds holds{state, output};
  SessionLifecycle lifecycle{state, {payload, output, holds}};
  StatsWriter stats_writer{state};
  Submissions submissions{state, {lifecycle, payload, stats_writer, replies}};
  Transmission transmission{state, {output, segment_output, lifecycle}};
  RegionLifecycle regions{state, {lifecycle, holds, replies}};
  ContextLifecycle contexts{state,
                            {lifecycle, payload, submissions, regions, replies, stats_writer}};
  Announcements announcements{state, {lifecycle, payload, holds, replies}};
  Neighbourhood neighbourhood{state, output, lifecycle};
  PassiveOpen passive_open{state, lifecycle, output};
  ReceivePressure pressure{state, {lifecycle, payload, replies}};
  SegmentInput segment_input{state, {lifecycle, payload, passive_open, pressure, holds}};
  IcmpInput icmp_input{state, {output, segment_input, lifecycle}};
  PacketInput input{state, {segment_input, icmp_input, neighbourhood}};
  InterWorker inter_worker{state, {lifecycle, input, neighbourhood, replies}};
  InvariantChecker invariants{state};
};

}  // namespace lyre::worker
