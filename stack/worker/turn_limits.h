#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/nanos.h"
#include "stack/channel/stats.h"
#include "stack/io/packet_io.h"

namespace lyre::worker {

// What one turn of poll_once() may do of each kind, so that no kind of work delays the others for
// long.
inline constexpr size_t kCommandsPerPollMax = 16;
inline constexpr size_t kRxBurstPackets = 32;
inline constexpr size_t kRxBurstsPerPollMax = 4;
inline constexpr size_t kSubmissionsPerContextMax = 64;
inline constexpr size_t kSubmissionsPerPollMax = 1024;
/// An open looks for a port, and costs as much as many other submissions.
inline constexpr size_t kOpensPerContextMax = 4;
inline constexpr size_t kOpensPerPollMax = 16;
inline constexpr size_t kTimersPerPollMax = 512;
inline constexpr size_t kTxPacketsPerPollMax = 256;
/// Segments of one session before the next session is served: about 64 KiB at MTU 1500.
inline constexpr size_t kSegmentsPerTurnMax = 44;
/// The same in bytes, where the port cuts large sends.
inline constexpr uint64_t kBytesPerTurnMax = 256 << 10;
/// So many sessions in a row that send nothing end the step: their port is full.
inline constexpr uint32_t kIdleTurnsMax = 64;
/// Sessions whose clients are told what happened.
inline constexpr uint32_t kAnnouncedPerPollMax = 1024;
/// Failed opens without a session that are kept for one client while its ring has no room.
inline constexpr uint32_t kFailedOpensPerContextMax = 256;
/// After so many sessions in a row without room for their news, a client's part of a turn ends.
inline constexpr uint32_t kUntoldInARowMax = 32;
inline constexpr size_t kSessionRowsPerPollMax = 16;
/// Places of the neighbour tables that one turn looks at for the stats segment.
inline constexpr size_t kNeighboursShownPerPollMax = 16;

// What one turn does of work that takes several turns.
inline constexpr uint32_t kConnectionsPerWalkStepMax = 256;
inline constexpr uint32_t kSessionsPerDetachStepMax = 256;
inline constexpr uint32_t kListenersPerDetachStepMax = 256;
inline constexpr uint32_t kRegionsPerDetachStepMax = 256;
inline constexpr uint32_t kSlotsPerDetachStepMax = 4096;
inline constexpr uint32_t kLeavingRegionsPerPollMax = 16;
/// Sessions that are released from a port's queue of held sessions in one turn.
inline constexpr uint32_t kReleasedPerPollMax = 256;
/// Sessions that are scheduled in one turn because the MAC address of a neighbour was learned.
inline constexpr uint32_t kWokenPerPollMax = 256;

/// The most payload that TCP gives at once to a worker that cuts it into packets.
inline constexpr uint32_t kSendBytesAtOnceMax = 1u << 20;
inline constexpr size_t kGatheredPiecesMax = 256;
/// Slots that a session may hold where its client has more than its share of the receive pool.
inline constexpr uint32_t kRxFairSlots = 16;
/// Payload of at most so many bytes is copied behind unread payload that has room for it.
inline constexpr uint32_t kSmallPayloadBytes = 512;

/// What a client that is gone had sent may be acknowledged for so long; its memory is kept
/// meanwhile.
inline constexpr Nanos kLingerMax = seconds(1);
inline constexpr Nanos kStatsPeriod = nanos(channel::kStatsPeriodNs);
/// What waits for room in a client's ring is tried again after this time, then after twice the time
/// each: a client need not tell that it made room.
inline constexpr Nanos kRoomRetryFirst = micros(100);
inline constexpr Nanos kRoomRetryLongest = millis(2);
/// A client is told at least this often how much of a long send was acknowledged, while any of it
/// is.
inline constexpr Nanos kProgressNewsPause = millis(100);
/// Memory that ports hold is looked at again after this time, then after twice the time each.
inline constexpr Nanos kHoldRetryFirst = micros(500);
inline constexpr Nanos kHoldRetryLongest = millis(100);
/// Packets that a port is given to send in one wait, so that its driver frees what was sent
/// before: enough for any driver.
inline constexpr uint32_t kNudgePacketsMax = io::kFreedWithinPackets;
/// While the receive pool has nothing left but its reserve, slots are taken back this often.
inline constexpr Nanos kPressurePause = millis(10);
/// After this time without receive slots, the client that has kept most of them is disconnected.
inline constexpr Nanos kGreedGrace = seconds(1);
/// Free ports that an open hashes at most, to find one whose packets come back to this worker: with
/// 16 queues all but one in 60 opens find one.
inline constexpr uint32_t kPortsToHashMax = 64;
/// Local ports that an open looks at. Where nine of ten are used towards its peer, one open in
/// 10^11 finds none; where 99 of 100 are, one in 13.
inline constexpr uint32_t kPortsTriedMax = 256;
/// Sessions whose ports take nothing, and ports with unsent packets, are tried again after this
/// time, then after twice the time each.
inline constexpr Nanos kTransmitRetryFirst = micros(50);
inline constexpr Nanos kTransmitRetryLongest = millis(10);

}  // namespace lyre::worker
