#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stack/base/bounded_vector.h"
#include "stack/base/rng.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/input.h"
#include "stack/ip/route_table.h"
#include "stack/link/neighbours.h"
#include "stack/session/send_queue.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/clients/client_memory.h"
#include "stack/worker/clients/context_table.h"
#include "stack/worker/flow_table.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/packet_fate.h"
#include "stack/worker/port.h"
#include "stack/worker/routing/connection_router.h"
#include "stack/worker/segment_merger.h"
#include "stack/worker/tables/connection_walk.h"
#include "stack/worker/tables/slot_loans.h"
#include "stack/worker/tables/time_wait_queue.h"
#include "stack/worker/tables/transmit_queue.h"
#include "stack/worker/timer_wheel.h"
#include "stack/worker/worker.h"

namespace lyre::worker {

// What one turn of poll_once() may do of each kind: so that nothing starves the rest.
inline constexpr size_t kCommandsPerPollMax = 16;
inline constexpr size_t kRxBurstPackets = 32;
inline constexpr size_t kRxBurstsPerPollMax = 4;
inline constexpr size_t kSubmissionsPerContextMax = 64;
inline constexpr size_t kTimersPerPollMax = 512;
inline constexpr size_t kTxPacketsPerPollMax = 256;
/// Of one session before the next has its turn: about 64 KiB at MTU 1500.
inline constexpr size_t kSegmentsPerTurnMax = 44;
/// Smallest MSS of a TSO packet: i40e takes less than this for an attack (I40E_MIN_TSO_MSS), and
/// other NICs have lower limits.
inline constexpr uint32_t kTsoMssMin = 256;
/// Transmit packets taken from the memory at a time.
inline constexpr size_t kTxStockPackets = 64;
/// Payload that a session hands over at once where the worker cuts it.
inline constexpr uint32_t kSendBytesAtOnceMax = 1u << 20;
inline constexpr size_t kLoopPacketsMax = 512;
inline constexpr size_t kGatheredPiecesMax = 256;
inline constexpr size_t kSessionRowsPerPollMax = 16;
/// Of work that takes several turns, how much one turn does.
inline constexpr uint32_t kConnectionsPerWalkStepMax = 256;
inline constexpr uint32_t kSessionsPerDetachStepMax = 256;
inline constexpr uint32_t kListenersPerDetachStepMax = 256;
inline constexpr uint32_t kRegionsPerDetachStepMax = 256;
inline constexpr uint32_t kLeavingRegionsPerPollMax = 16;
inline constexpr uint32_t kSlotsPerDetachStepMax = 4096;
/// Sessions that are scheduled in one turn because the MAC address of a neighbour was learned.
inline constexpr uint32_t kWokenPerPollMax = 256;
inline constexpr Nanos kStatsPeriod = millis(50);
/// What waits for room in a client's ring is tried again this soon: clients need not tell us.
inline constexpr Nanos kUntoldRetry = micros(100);
/// A client hears no less often how much of a long send was acknowledged, while any of it is.
inline constexpr Nanos kProgressNewsPause = millis(100);
/// So often a port that holds on to a client's memory is given a packet to send.
inline constexpr Nanos kNudgeInterval = micros(500);

/// Slots that a session may hold where the receive pool is low.
inline constexpr uint32_t kRxFairSlots = 16;

/// Whether a packet without a connection here may be another worker's.
enum class Redirect : uint8_t { kNo, kYes };

/// Worker's insides. One file a step of poll_once(); this class is their shared state.
struct Worker::Impl {
  Impl(const WorkerConfig& worker_config, io::PacketMemory& packet_memory,
       std::span<const PortBinding> port_bindings, std::span<const RouteBinding> routes,
       StatsBinding stats_binding);
  ~Impl();

  // worker.cc
  size_t poll_once(Nanos time);
  Nanos next_deadline() const;
  bool has_waiting_work();

  // contexts.cc: attach, detach, expel
  size_t drain_inbox();
  void attach(const Command& command);
  void detach(uint32_t context);
  void expel(Context& context, const char* reason);
  size_t continue_detaching(uint32_t context);
  void leave_to_itself(uint32_t conn);
  size_t finish_detaching();
  void shut_down();
  size_t continue_shutdown();
  void post(Reply reply);

  // regions.cc: memory that clients registered
  void add_region(const Command& command);
  void begin_removal(const Command& command);
  size_t finish_removals();
  uint32_t end_senders(ClientMemory::Region& region);
  void forget_region(uint32_t index);
  void remove_from_ports(uint32_t index);
  bool forget_memory(uint32_t context);
  bool is_held_by_ports(uint32_t region) const;
  bool holds_memory_of(uint32_t context);
  bool holds_memory_of(const session::Session& waiting);
  bool nudge_ports();
  bool has_unsent_pieces(uint32_t region) const;

  // rx_path.cc: packets arrive and are classified
  size_t receive();
  size_t receive_local();
  void on_packet(io::PacketBuf* packet, ip::Origin origin, Redirect redirection);
  PacketFate on_parsed_packet(io::PacketBuf* packet, ip::Origin origin, Redirect redirection);
  void drop(Drop reason) { stats.worker->drops[static_cast<size_t>(reason)].add(1); }

  // icmp_input.cc
  void on_echo(uint8_t port, const ip::EchoInput& input);
  void on_refused(uint8_t port, const ip::Refused& refused);
  PacketFate on_icmp_error(io::PacketBuf* packet, const ip::IcmpError& error, Redirect redirection);

  // segment_input.cc: a segment to its connection
  uint32_t find_connection(const FourTuple& tuple) const;
  PacketFate on_tcp(io::PacketBuf* packet, const ip::TcpInput& input, Redirect redirection);
  PacketFate on_connection_segment(uint32_t conn, io::PacketBuf* packet, const ip::TcpInput& input,
                                   const tcp::SegmentIn& segment);
  PacketFate on_segment(uint32_t conn, const tcp::SegmentIn& segment);
  bool may_keep_payload(uint32_t conn, const tcp::SegmentIn& segment) const;
  void deliver(const MergedSegment& merged);
  void deliver_merged();

  // passive_open.cc: segments without a connection
  PacketFate on_unmatched(io::PacketBuf* packet, const ip::TcpInput& input,
                          const tcp::SegmentIn& segment, std::optional<SeqNum> iss_after);
  bool try_make_way(uint32_t conn, const FourTuple& tuple);
  void on_syn(uint32_t listener, const FourTuple& tuple, const tcp::SegmentIn& segment,
              std::optional<SeqNum> iss_after, std::optional<MacAddress> mac);
  void bind_passive(uint32_t conn, uint32_t listener, const FourTuple& tuple,
                    const ip::RouteResult& route);
  std::optional<PacketFate> on_cookie_ack(uint32_t listener, io::PacketBuf* packet,
                                          const ip::TcpInput& input, const tcp::SegmentIn& segment);

  // payload.cc: received packets from the engine to whoever reads them
  void release_slot_memory(uint32_t slot);
  uint32_t release_chain(uint32_t slot);
  void return_trimmed(uint32_t conn, uint32_t packet_count);
  std::optional<PayloadSlice> take_slice(uint32_t conn);
  void discard_payload(uint32_t conn);
  void release_all_payload(uint32_t conn);

  // inter_worker.cc: packets and connections of other workers; what ConnectionRouter calls
  PacketFate redirect(io::PacketBuf* packet, const FourTuple& tuple);
  void on_redirected_packet(uint32_t conn, const WorkerMessage& message);
  io::PacketBuf* copy_redirected(const io::PacketBuf& original);
  void on_unclaimed_packet(io::PacketBuf* packet);
  void on_returned_packet(io::PacketBuf* packet);
  bool may_migrate(uint32_t conn);
  void migrate(uint32_t conn, const WorkerMessage& message);
  void on_migrated_connection(const WorkerMessage& message);
  void refuse_migration(const FourTuple& tuple, const WorkerMessage::Migration& moved);
  void on_neighbour_update(const WorkerMessage& message);

  // submissions.cc: what clients ask for
  size_t take_submissions();
  const char* on_submission(Context& context, const channel::Submission& entry);
  const char* on_connect(Context& context, const channel::Submission& entry);
  const char* on_listen(Context& context, const channel::Submission& entry);
  const char* on_close_listen(Context& context, const channel::Submission& entry);
  void close_listener(Context& context, uint32_t index);
  const char* on_send(Context& context, uint32_t conn, const channel::Submission& entry);
  void shut_down_session(uint32_t conn);
  const char* on_set_option(uint32_t conn, const channel::Submission& entry);
  const char* on_release(Context& context, const channel::Submission& entry);
  void return_slots(const SlotLoan& owner, uint32_t count);
  const char* release_copy_block(Context& context, uint32_t block);
  void count_received_copy(const Context& context, channel::SessionName reader, uint32_t bytes);
  bool is_same_session(uint32_t conn, uint32_t generation) const;
  void return_charge(uint32_t conn, uint32_t generation, uint32_t charge_bytes);

  // connections.cc: sessions from open to end
  void bind_session(uint32_t conn, const FourTuple& tuple, const ip::RouteResult& route);
  channel::EndStatus open_session(uint32_t context, const Endpoint& local, const Endpoint& remote,
                                  uint64_t cookie, uint32_t& conn);
  void count_finished(const session::Session& sender, uint32_t count);
  void drop_sends(session::Session& sender);
  void release_superseded(uint32_t conn);
  void end_in_time_wait(uint32_t conn);
  void leave_handshake(uint32_t conn);
  void leave_listener(uint32_t conn);
  void on_established(uint32_t conn);
  void send_last_word(uint32_t conn);
  std::optional<uint16_t> choose_port(const IpAddress& local, const Endpoint& remote);
  void close_by_client(uint32_t conn);
  void abort_session(uint32_t conn, channel::EndStatus status);
  void apply(uint32_t conn, const tcp::Effects& effects);
  void end_session(uint32_t conn, tcp::EndReason reason);
  void release_if_done(uint32_t conn);
  void forget_context(uint32_t conn);
  void queue_time_wait(uint32_t conn);
  bool must_make_room() const;
  void make_room();
  void end_time_wait(uint32_t conn);
  void link_to_context(uint32_t conn, uint32_t context);
  tcp::ConnectionConfig connection_config(const ip::RouteResult& route) const;
  bool is_live(const Context& context, channel::SessionName name) const;

  // completions.cc: what clients are told
  size_t announce_all();
  bool announce(Context& context, uint32_t conn);
  bool announce_data(Context& context, uint32_t conn);
  bool lend_some(uint32_t conn, channel::Completion& entry);
  bool copy_some(Context& context, uint32_t conn, channel::Completion& entry);
  void announce_sends(Context& context, uint32_t conn);
  bool announce_end(Context& context, uint32_t conn);
  bool must_wait_for_holds(Context& context, session::Session& waiting);
  const char* answer_open(Context& context, channel::Event event, channel::EndStatus status,
                          uint64_t cookie, channel::SessionName name, const FourTuple& tuple);
  void push(Context& context, const channel::Completion& entry);
  void ring_doorbells();
  void mark_dirty(uint32_t conn);
  void remove_dirty(uint32_t conn);

  // tx_path.cc: a packet's way out
  size_t transmit();
  size_t transmit_session(uint32_t conn, size_t budget);
  size_t packet_room(const session::Session& sender);
  uint32_t payload_limit(uint32_t conn, size_t room) const;
  size_t send_segment(uint32_t conn, const tcp::SegmentOut& segment, MacAddress mac);
  io::PacketBuf* send_part(uint32_t conn, const tcp::SegmentOut& part, MacAddress mac,
                           const io::PacketBuf* model);
  void finish_packet(uint32_t conn, const tcp::SegmentOut& segment, io::PacketBuf& packet,
                     MacAddress mac, const io::PacketBuf* model);
  void restock();
  io::PacketBuf* try_make_uncut(uint32_t conn, tcp::SegmentOut& part);
  io::PacketBuf* make_packet(uint32_t conn, const tcp::SegmentOut& segment);
  bool try_gather(uint32_t conn, const tcp::SegmentOut& segment, io::PacketBuf& packet);
  io::PacketBuf* copy_payload(uint32_t conn, const tcp::SegmentOut& segment);
  void note_retransmission(session::Session& sender, const io::PacketBuf& packet);
  void write_headers(io::PacketBuf& packet, const FourTuple& tuple, const tcp::SegmentOut& segment,
                     uint32_t port, MacAddress mac, uint32_t flow_label);
  void count_out(const tcp::SegmentOut& segment);
  io::PacketBuf* alloc_tx();
  void send_alone(const FourTuple& tuple, const tcp::SegmentOut& segment,
                  std::optional<MacAddress> mac = std::nullopt);
  void deliver_locally(io::PacketBuf* packet);
  void send_packet(uint32_t port, io::PacketBuf* packet);

  // neighbourhood.cc: who is on the wire
  void add_port(const PortBinding& binding);
  void add_route(uint8_t index, const ip::Prefix& to, const IpAddress& gateway);
  void on_arp(uint8_t port, const wire::ArpPacket& packet);
  void on_ndp(uint8_t port, const link::NdpArrival& arrival);
  void carry_out(const link::NeighbourHandled& handled);
  void follow_neighbours();
  size_t leave_lost_addresses();
  size_t run_neighbour_timers();
  void send_neighbour(const link::NeighbourOut& out);
  std::optional<MacAddress> neighbour_of(uint32_t conn);
  void release_neighbour(session::Session& sender);
  bool reroute(uint32_t conn);

  // timers.cc
  size_t run_timers();
  void arm(uint32_t conn);

  // stats_writer.cc: what tools see
  void write_stats();
  void write_port_counters();
  void write_row(uint32_t conn);
  void write_listener_row(uint32_t index);
  void show_owner(channel::SessionView& view, uint32_t context) const;

  // invariants.cc
  void check_invariants(uint32_t connections);
  void check_session(uint32_t conn) const;
  void check_sends() const;
  bool is_at_rest() const;
  void replace_engine();

  session::Session& session(uint32_t conn) { return sessions[conn]; }
  channel::SessionName name_of(uint32_t conn) const {
    return {.index = conn, .generation = sessions[conn].generation};
  }

  WorkerConfig config;
  io::PacketMemory& memory;
  StatsBinding stats;
  Nanos now;
  Rng rng;

  std::vector<Port> ports;  ///< reserved at start
  ip::RouteTable routes;
  ip::EchoResponder echo;
  SegmentMerger merger;
  ip::Classified classified;  ///< of the packet under way
  link::Neighbours neighbours;
  uint32_t neighbours_seen = 0;    ///< generation for which sessions were woken
  uint32_t ndp_seen = UINT32_MAX;  ///< generation that the routes follow
  uint16_t ip_id = 0;

  tcp::Engine engine;
  SipKey flow_label_key;
  FlowTable flows;
  ConnectionRouter router;
  Listeners listeners;
  TimerWheel timers;
  std::unique_ptr<session::Session[], void (*)(void*)> sessions;  ///< by connection index
  ConnectionWalk shutdown_walk;
  ConnectionWalk lost_addresses_walk;
  TransmitQueue transmit_queue;
  TimeWaitQueue time_waits;
  session::SendPieces sends;
  uint32_t generations = 0;

  ContextTable contexts;
  ClientMemory client_memory;
  std::vector<uint32_t> region_segment_bytes;  ///< by region index: see io::PacketMemory
  SlotLoans loans;

  BoundedVector<io::PacketBuf*, kTxStockPackets> tx_stock;  ///< empty transmit packets
  BoundedVector<io::PacketBuf*, kLoopPacketsMax> loop;      ///< delivered locally, not yet received
  BoundedVector<io::PacketBuf*, kLoopPacketsMax> loop_now;  ///< being received
  uint32_t stats_cursor = 0;
  uint32_t check_cursor = 0;
  Nanos nudged_at{0};
  Nanos stats_due{0};
  uint64_t work_since_stats = 0;
  bool has_untold = false;  ///< something waits for room in a ring, or for the ports
  bool is_shutting_down = false;

  Inbox inbox;
  Outbox outbox;
};

}  // namespace lyre::worker
