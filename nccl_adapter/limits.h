#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_adapter/abi/common.h"

/// The bounds of the adapter. Units: the last word of the name.
namespace lyre::nccl_adapter {

inline constexpr int64_t kNsPerSecond = 1'000'000'000;

/// How often comms are looked at by the clock: redials, pings, streams that stall.
inline constexpr int64_t kTickNs = 20'000'000;
/// At so many of them in one call. Each takes up to a microsecond, and NCCL's thread waits.
inline constexpr size_t kCommsPerLook = 32;

/// Requests of one comm that NCCL may have outstanding.
inline constexpr size_t kRequestsPerComm = nccl_abi::kRequestsMax;

/// How long a test() waits when it ends a round of tests that found nothing and another thread
/// computes on this core: at first, and at most. NCCL yields after such a round, which gives that
/// thread some 3 ms: a longer wait would cost more than the yield. A shorter one is followed by the
/// yield, but during the wait NCCL does not see that its next send is ready.
inline constexpr int kRestUsMin = 50;
inline constexpr int kRestUsMax = 3000;

/// Sends of at most this, so many in a row without a longer gap: the test() that follows one of
/// them leaves the core at once if it finds nothing, not at the end of NCCL's round of tests.
inline constexpr uint64_t kSmallSendBytesMax = 64 * 1024;
inline constexpr int kSmallSendsInARow = 16;
inline constexpr int64_t kSmallSendsGapNs = 5'000'000;
/// A yield to another thread takes longer: two task switches. After so many shorter ones in a row
/// only one of so many sends is followed by one.
inline constexpr int64_t kVainYieldNs = 1'000;
inline constexpr int kVainYieldsInARow = 8;
inline constexpr uint32_t kSendsPerTrial = 64;

/// Sent without the receiver having asked for it, at most, on one comm.
inline constexpr uint64_t kEagerBytes = 64 * 1024;

/// A receiver that posted this much since its last grant grants at once; less waits for the next
/// acknowledgement. At most half of kEagerBytes: then what waits always fits the eager budget.
inline constexpr uint64_t kGrantPromptBytes = kEagerBytes / 2;

/// One arena block: frame header and payload. A power of two, so that the arena wastes nothing.
inline constexpr size_t kBlockBytes = 256 * 1024;

/// Payload of one data frame: what a block has room for behind the header.
inline constexpr size_t kChunkBytesMax = kBlockBytes - 32;
/// Messages are cut at multiples of this, which NCCL's LL128 takes for one unit.
inline constexpr size_t kCutBytes = 128;
inline constexpr size_t kChunkCutBytesMax = kChunkBytesMax / kCutBytes * kCutBytes;

/// Payload of at least this is sent from where it lies, if the daemon can read it there: for less,
/// the copy costs less than a second descriptor.
inline constexpr size_t kZeroCopyBytesMin = 16 * 1024;

/// Of less than kZeroCopyBytesMin, so many messages of a comm may be done for NCCL before they are
/// placed: a copy is kept.
inline constexpr size_t kKeptSends = 16;

/// The grant of small messages waits for further ones until the first look by the clock (kTickNs)
/// after this time.
inline constexpr int64_t kGrantWaitNs = 200'000'000;

/// deregMr() waits this long for acknowledgements before it costs a stream.
inline constexpr int64_t kDeregisterWaitNs = 200'000'000;

/// A message of at most this goes over one stream, and no larger one is cut into less for the sake
/// of having a piece for each stream.
inline constexpr size_t kStripeBytesMin = 64 * 1024;
/// Beside other streams a piece is at most what a stream delivers in this time.
inline constexpr int64_t kPieceNs = 2'500'000;

/// The most unacknowledged data that a stream is given: deeper queues only push the bytes out of
/// the cache and leave the other comms no room in the arena.
inline constexpr uint64_t kStreamUnackedBytesMax = 4 * 1024 * 1024;
/// Less where that is enough: twice what the stream delivers in a round trip, and a queue of what
/// it delivers in this time, of two pieces at least. Together the queues of all streams then hold
/// what the network carries in that time, however many streams there are: more is lost where the
/// network limits flows and hosts by short queues.
inline constexpr int64_t kStreamQueueNs = 2 * kPieceNs;
inline constexpr uint64_t kStreamQueueBytesMax = 2 * kBlockBytes;
/// A stream that is alone gets more: nobody else sends while the caller pauses.
inline constexpr int64_t kStreamQueueAloneNs = kTickNs;

/// What NCCL is told it may put into one message: sizes in test() are an int.
inline constexpr size_t kMessageBytesMax = nccl_abi::kNetBytesMaxV8;

/// Slices taken from a session at a time.
inline constexpr int kSlicesPerTake = 32;

/// Rounds of taking slices in one call, so that one busy comm does not keep the others waiting.
inline constexpr int kTakeRoundsMax = 8;

/// Streams of one comm; where LYRE_STREAMS is not set, how many it begins with at most, and to how
/// many they may grow.
inline constexpr uint16_t kStreamsMax = 64;
inline constexpr uint16_t kStreamsAutoMax = 8;
inline constexpr uint16_t kStreamsLearnedMax = 32;
/// Of an instance's connections that send over a port, those beyond so many begin with one stream,
/// where LYRE_STREAMS is not set. With one for each they use the port and all workers, and a host
/// has places for more of them.
inline constexpr size_t kConnectionsWithStreams = 64;
/// What one flow can be relied on to carry in a cloud's network.
inline constexpr uint32_t kFlowSpeedMbps = 10'000;

/// Ports of one host that its peers are told of.
inline constexpr size_t kRailsMax = 8;

/// Connections without a hello yet, an acceptor.
inline constexpr size_t kPendingConnectionsMax = 1024;

/// Peers that said hello and wait for accept(), a listen comm.
inline constexpr size_t kArrivalsMax = 256;

/// Lines about foreign connections that one process logs in an hour, and as many about peers of
/// other protocol versions; the rest is only counted.
inline constexpr uint32_t kForeignLinesPerHour = 32;

inline constexpr int kListenBacklog = 1024;

/// A close waits this long for the peer to place what is done for NCCL, and for the peer's TCP to
/// acknowledge the goodbye.
inline constexpr int64_t kCloseWaitNs = 1'000'000'000;
/// And finalize this long for all of them together: a lost packet may cost seconds.
inline constexpr int kFinalizeDrainMs = 5000;
/// And this long for the answers to peers that dialled again meanwhile.
inline constexpr int kAnswerDrainMs = 1000;

/// NCCL calls connect() until it has the comm, but its thread may wait for minutes in a call of
/// CUDA meanwhile. One that it has not asked for during this time, in which this process could run,
/// it has abandoned.
inline constexpr int64_t kConnectAbandonedMinutes = 20;
inline constexpr int64_t kConnectAbandonedNs = kConnectAbandonedMinutes * 60 * kNsPerSecond;

/// How long after a refusal memory is registered again that the daemon refused for a reason that
/// may pass. A registration holds the instance's lock. An upgrade that refused it takes no other
/// for 20 s after that, and the communicator would wait as long.
inline constexpr int64_t kAskAgainNs = 30'000'000'000;
/// The same after a registration that succeeded.
inline constexpr int64_t kAskNextNs = 1'000'000'000;

/// What `lyre comms` shows is renewed this often.
inline constexpr int64_t kShowNs = 200'000'000;
/// The progress thread makes progress when NCCL made no call for this long.
inline constexpr int64_t kProgressThreadNs = 100'000'000;
/// How long a daemon that is there may take to answer a process that begins, and one that had lost
/// it. An upgrade may pause it for 45 s (docs/user/operations.md). The second one must leave room
/// for several attempts within LYRE_RESUME_SECONDS.
inline constexpr uint64_t kStartPatienceMs = 60'000;
inline constexpr uint64_t kFindPatienceMs = 2'000;
/// An init that waits for a daemon tries again this often.
inline constexpr int64_t kInitAgainNs = 200'000'000;
/// For this long, where what it waits for is a context that another communicator has finalized, or
/// the group of the socket of a daemon that starts.
inline constexpr int64_t kFreeContextNs = 2'000'000'000;
/// A lost daemon is looked for this often.
inline constexpr int64_t kReattachNs = 50'000'000;
/// A stream that cannot be made is tried again after this long, then twice that, up to the limit.
inline constexpr int64_t kRedialNsMin = 20'000'000;
inline constexpr int64_t kRedialNsMax = 500'000'000;
/// One that a full daemon has no place for is tried again after this long, where its comm has
/// others. A comm that has none asks the other comms of its process to give places back, no more
/// often than kRedialNsMax.
inline constexpr int64_t kNoRoomNs = 10'000'000'000;
/// A stream that had to take another rail looks for its own after this long, then after twice that,
/// up to the limit. One that was on its own rail for longer than the limit begins anew.
inline constexpr int64_t kReturnNsMin = 5'000'000'000;
inline constexpr int64_t kReturnNsMax = 80'000'000'000;
/// Limits of the time until a dial has sent its hello: the second one, or less where many pairs
/// must be tried before the peer gives up.
inline constexpr int64_t kDialNsMin = 500'000'000;
inline constexpr int64_t kDialNsMax = 3'000'000'000;
/// A handshake that ended within this time was with the peer's present daemon: a restart takes
/// longer.
inline constexpr int64_t kJustConnectedNs = 100'000'000;
/// A host that acknowledged our hello and did not answer it is probed at this interval. It is given
/// up after so many probes without an answer.
inline constexpr uint32_t kProbeMs = 1000;
inline constexpr uint32_t kProbesMax = 3;
/// A comm that waits sends a ping on each stream on which nothing arrived for this long.
inline constexpr int64_t kPingNs = 1'000'000'000;
/// A stream on which nothing was acknowledged for this long is stalled, but not before TCP had the
/// time to retransmit twice: kStallTimeouts of its retransmission timeout. On a slow or long path
/// that timeout alone is more than a second.
inline constexpr int64_t kStallNs = 1'000'000'000;
inline constexpr int64_t kStallTimeouts = 3;
/// A stream has delivered data when at least this was acknowledged: what is less may have been
/// hello, headers and pings, which pass a path that drops large packets.
inline constexpr uint64_t kDeliveredBytesMin = 4096;
/// A stream that stalls without having delivered data is replaced after kStallNs, its successor
/// after twice that, and so on up to the limit: TCP needs some 1.4 s to find that a path drops
/// large packets.
inline constexpr int64_t kUndeliveredNsMax = 8'000'000'000;
/// So many such streams in a row, at least, show that the path is the reason: a host that paused
/// costs one or two.
inline constexpr uint32_t kUndeliveredStreamsMin = 3;
/// A stream with less than this much of its neighbours' rate shares a path that they do not (two
/// streams of one path have half each), and is dialled again from another source port.
inline constexpr double kSlowPercent = 60;
/// With fewer bytes under way the rate may be limited by the caller, and with less than half of
/// what the stream is given.
inline constexpr uint64_t kSlowBacklogBytes = kStripeBytesMin;
/// A window of evidence has so many looks, one each tick, and its neighbours delivered that much:
/// a multiple of the pieces into which messages are cut. Two windows in a row must agree: 200 ms.
inline constexpr uint32_t kSlowWindowLooks = 5;
inline constexpr uint64_t kSlowWindowBytesMin = 4 * kBlockBytes;
inline constexpr uint32_t kSlowWindows = 2;
/// It is replaced again after this long, then twice that, up to the limit. It begins anew when it
/// could have been replaced for kSlowForgetNs and was not.
inline constexpr int64_t kSlowPauseNsMin = 1'000'000'000;
inline constexpr int64_t kSlowPauseNsMax = 60'000'000'000;
inline constexpr int64_t kSlowForgetNs = 300'000'000'000;
/// A stream that is slow again after so many replacements takes another rail pair. Those count
/// before which it had kSlowPercent or more of the rate of each other stream of its pair.
inline constexpr uint32_t kSlowAgainMax = 2;
/// A connection is busy that has this much under way: with less, the caller may be the limit,
/// unless something waits for room.
inline constexpr uint64_t kBusyBytes = kBlockBytes;
/// How many streams connections need is measured over this much time of being busy, after this
/// much for congestion windows to open; and until that many bytes were acknowledged, which are
/// counted in whole pieces.
inline constexpr int64_t kStreamMeasureNs = 120'000'000;
inline constexpr int64_t kStreamSettleNs = 40'000'000;
/// Before the first trial of a series, instead of that: the job may just have begun.
inline constexpr int64_t kStreamBeginNs = 100'000'000;
inline constexpr uint64_t kStreamMeasureBytes = 8 * kBlockBytes;
/// Of what the others carry, each: what an added stream has to bring. One that shares a full port
/// with another process, stream by stream, brings up to a third: half of the port becomes two
/// thirds of it.
inline constexpr double kStreamHelps = 0.45;
/// Connections whose number of streams grew so often have found a network that limits flows; once
/// may be chance.
inline constexpr uint32_t kStreamsGrownMin = 2;
/// Of the total before: with this much more streams are kept, but no further ones are tried.
inline constexpr double kStreamHelpsSome = 1.15;
/// When the trials are over, one more follows after this long, then after twice that, up to the
/// limit, and so often. The number is small, because processes whose trials overlap take each
/// other's loss for help. Trials that only bring back what a full daemon took are not limited.
inline constexpr int64_t kTryAgainNsMin = 4'000'000'000;
inline constexpr int64_t kTryAgainNsMax = 300'000'000'000;
inline constexpr uint32_t kTryAgainMax = 3;
/// Streams on trial that are not there by then count as no help.
inline constexpr int64_t kStreamTrialWaitNs = 1'000'000'000;
/// Streams that a full daemon has refused for this long, and that are not on trial, show that all
/// of its places are taken: some are given back.
inline constexpr int64_t kStreamsRefusedNs = 1'000'000'000;
/// The number of streams is forgotten after a pause of this length.
inline constexpr int64_t kForgetStreamsNs = 10'000'000'000;
/// What the peer gets beyond LYRE_RESUME_SECONDS: it notices later than we do.
inline constexpr int64_t kResumeMarginNs = 2'000'000'000;

/// RDMA devices are looked for no more often than this.
inline constexpr int64_t kVerbsLookNs = 100'000'000;
/// One that cannot be used is opened again no earlier than this: that takes some milliseconds.
inline constexpr int64_t kVerbsRefusedNs = 2'000'000'000;
/// After how long a device sends again what is not acknowledged: 4.096 us * 2^14, 67 ms. It does so
/// seven times, so that a silent path is given up after about half a second.
inline constexpr int64_t kVerbsTimeout = 14;
/// A queue pair whose device reports nothing is given up when the time of all its tries is over,
/// with the timeout that is set, and after this at the latest: a timeout of 20 has its 34 s.
inline constexpr int64_t kQueuePairStallNsMax = 60'000'000'000;
/// A queue pair has so many receives of so many bytes posted, and as many sends at most under way.
inline constexpr uint32_t kQueuePairSlots = 16;
inline constexpr uint32_t kQueuePairSlotBytes = 64 * 1024;
/// Of the sends, so many are kept for credit frames: the two directions do not wait for each other.
inline constexpr uint32_t kCreditSlots = 2;
/// A receive of at least this is exposed to queue pairs of mode 2: for less, the copy costs less
/// than a second work request.
inline constexpr size_t kExposedBytesMin = kZeroCopyBytesMin;
/// Queue pairs of one comm.
inline constexpr size_t kQueuePairsMax = 8;
/// Another queue pair is offered after this long, then after twice that, up to the limit. One that
/// carried something and lasted for kQueuePairProvenNs, and the time of its device's tries, begins
/// anew.
inline constexpr int64_t kOfferNsMin = 100'000'000;
/// An offer that is not answered is made again no earlier than this.
inline constexpr int64_t kOfferAnswerNs = 1'000'000'000;
inline constexpr int64_t kOfferNsMax = 80'000'000'000;
inline constexpr int64_t kQueuePairProvenNs = 10'000'000'000;
/// A receiver that waits for data repeats that it lost a queue pair after this long.
inline constexpr int64_t kDeclineAgainNs = 1'000'000'000;
/// Connecting a queue pair may block for a second while the kernel resolves an address. Where it
/// failed, no comm tries the same path again before this long, then twice that, up to kOfferNsMax.
inline constexpr int64_t kFailedPathNsMin = 2'000'000'000;
inline constexpr size_t kFailedPathsMax = 1024;

/// Closed receiving comms whose result is kept for a peer that dials again.
inline constexpr size_t kDepartedMax = 4096;

}  // namespace lyre::nccl_adapter
