#pragma once

#include <cstddef>
#include <span>

#include "stack/base/nanos.h"
#include "stack/io/packet_io.h"
#include "stack/worker/announcements.h"
#include "stack/worker/context_lifecycle.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/icmp_input.h"
#include "stack/worker/inbox.h"
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
#include "stack/worker/tables/connection_walk.h"
#include "stack/worker/transmission.h"
#include "stack/worker/worker.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The turn, and the parts that it joins. A part knows the tables and the parts above it here.
struct Worker::Impl {
  Impl(const WorkerConfig& config, io::PacketMemory& memory, std::span<const PortBinding> bindings,
       std::span<const RouteBinding> routes, StatsBinding stats);
  ~Impl();

  size_t poll_once(Nanos now);
  Nanos next_deadline() const;
  bool has_waiting_work();

  size_t drain_inbox();
  size_t receive();
  size_t receive_local();
  void shut_down();
  size_t continue_shutdown();

  bool is_at_rest() const;
  void replace_engine();

  WorkerState state;
  Inbox inbox;
  ControlReplies replies{state};
  ReceivedPayload payload{state};
  PacketOutput output{state};
  SegmentOutput segment_output{state, output};
  SessionLifecycle lifecycle{state, payload, output};
  StatsWriter stats_writer{state};
  Submissions submissions{state, {lifecycle, payload, stats_writer, replies}};
  Transmission transmission{state, {output, segment_output, lifecycle}};
  PortHolds holds{state, output};
  RegionLifecycle regions{state, {lifecycle, holds, replies}};
  ContextLifecycle contexts{state,
                            {lifecycle, payload, submissions, regions, replies, stats_writer}};
  Announcements announcements{state, {lifecycle, payload, holds, replies}};
  Neighbourhood neighbourhood{state, output, lifecycle};
  PassiveOpen passive_open{state, lifecycle, output};
  ReceivePressure pressure{state, {lifecycle, payload, replies}};
  SegmentInput segment_input{state, {lifecycle, payload, passive_open, pressure}};
  IcmpInput icmp_input{state, {output, segment_input, lifecycle}};
  PacketInput input{state, {segment_input, icmp_input, neighbourhood}};
  InterWorker inter_worker{state, {lifecycle, input, neighbourhood, replies}};
  InvariantChecker invariants{state};
  ConnectionWalk shutdown_walk;
  uint32_t next_to_claim = 0;  ///< after take_over(): connections below this are claimed
};

}  // namespace lyre::worker
