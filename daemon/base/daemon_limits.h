#pragma once

#include <algorithm>
#include <cstdint>

#include "stack/base/nanos.h"

/// The limits of the daemon's control thread, and their reasons.
namespace lyre {

/// Connections of the control socket that carry no context, of all clients and of one uid: programs
/// that only ask for the stats segment. They close the connection when they have the answer.
inline constexpr uint32_t kLookersMax = 128;
inline constexpr uint32_t kLookersPerUidMax = 64;
/// Connections of a control socket beyond those, for root and the daemon's own user: `lyre status`,
/// `lyre pcap` and a reload work also when other users take all the others.
inline constexpr uint32_t kOperatorConnections = 16;
/// Neighbours of a worker that the stats segment shows.
inline constexpr uint32_t kNeighbourRowsMax = 4096;
/// A connection that has not attached by then is closed.
inline constexpr Nanos kAttachTimeout = seconds(10);
/// Period of taking the workers' replies: while some are due, and otherwise.
inline constexpr Nanos kRepliesPeriod = millis(5);
inline constexpr Nanos kRepliesIdlePeriod = millis(25);
/// Period of polling links: while all are up, and while one is down.
inline constexpr Nanos kLinkPeriod = millis(250);
inline constexpr Nanos kLinkDownPeriod = millis(20);
/// Period of reading the counters of devices. On ENA this is an admin command that sleeps about
/// 100 us.
inline constexpr Nanos kDeviceCountersPeriod = seconds(1);
/// Period of looking whether workers are on their cores (CoreKeeper): a system call for each.
inline constexpr Nanos kCoresPeriod = seconds(2);
/// Period of Housekeeping.
inline constexpr Nanos kHousekeepingPeriod = millis(250);
/// A look that comes so late follows a pause of this process, or of its machine.
inline constexpr Nanos kPauseMin = seconds(2);
/// Period of TelemetrySweeper.
inline constexpr Nanos kTelemetrySweepPeriod = seconds(300);
/// A worker that has made no turn for so long hangs: four looks, and ten times its longest sleep.
inline constexpr Nanos kHangAfter = seconds(1);
/// A daemon ends when one of its workers hangs for so long, whatever the watchdog's time is.
inline constexpr Nanos kEndAfter = seconds(10);
/// Period of the warning that another machine claims an address.
inline constexpr Nanos kConflictWarningPeriod = seconds(10);
/// How long a Goodbye waits until workers and ports have released the memory of its client, which
/// may use that again when it has the Goodbye. Less than a library waits for an answer.
inline constexpr Nanos kGoodbyeTimeout = seconds(1);
/// Limit of the wait until workers and ports have released a client's memory.
inline constexpr Nanos kRegionTimeout = seconds(1);
/// The same for a client whose last wait was in vain and ended less than that time ago: what holds
/// one region of a job mostly holds the others, and the job gives them back one after the other.
inline constexpr Nanos kNextRegionTimeout = millis(50);
/// Memory of which more is mapped for the ports by a thread of its own: pinning takes some 0.3 s
/// for each GiB that was not touched before.
inline constexpr uint64_t kMapAtOnceBytesMax = uint64_t{32} << 20;
/// The same for an arena: those of the default size do not wait for the large memory of others.
inline constexpr uint64_t kMapAtOnceArenaBytesMax = uint64_t{64} << 20;
/// What the control thread maps and unmaps of all that between two looks at the workers' replies.
/// Many clients that come at once would otherwise keep it from the watchdog.
inline constexpr uint64_t kMapAtOnceOfLookBytesMax = uint64_t{256} << 20;
/// How often a client is told that its registration is under way.
inline constexpr Nanos kRegionNewsPeriod = millis(500);
/// How long the memory helper may take for a request: it ends each after a second.
inline constexpr Nanos kMappingPatience = seconds(5);
/// How long the memory helper may take to end, after that of its last request, and how often the
/// daemon looks whether it has.
inline constexpr Nanos kMappingHelperEnd = seconds(2);
inline constexpr unsigned kMappingHelperEndLookUs = 1000;
/// How long a stopping daemon waits for its workers to reset their sessions.
inline constexpr Nanos kShutdownTimeout = seconds(2);
/// What one worker can hold of received bytes that it copied for a context: all of them where the
/// pools are not lent, remainders where they are. Costs memory when touched.
inline constexpr uint64_t kCopyBytesPerWorkerMax = uint64_t{4} << 20;
/// The same of all workers, which have equal parts of it: 256 KiB each of 64.
inline constexpr uint64_t kCopyBytesPerContextMax = uint64_t{16} << 20;
/// What each of so many workers has of it: whole blocks (kCopyBlockBytes), and whole pages of any
/// size.
constexpr uint64_t copy_bytes_per_worker(uint32_t worker_count) {
  constexpr uint64_t kUnitBytes = 65536;
  const uint64_t part = kCopyBytesPerContextMax / worker_count / kUnitBytes * kUnitBytes;
  return std::min(kCopyBytesPerWorkerMax, part);
}
/// Rows of the stats segment for the connections of a worker, 0.3 KiB each. Listeners have their
/// own.
inline constexpr uint32_t kSessionRowsMax = 16384;
/// Sessions of a worker that have a trace, 2 KiB each, and those that ended badly, 3 KiB each.
inline constexpr uint32_t kTraceRingsMax = 4096;
inline constexpr uint32_t kEndedRows = 64;
/// Sleep of an adaptive worker one of whose ports may not announce a packet: it has no means to, or
/// its driver has not proved yet that it does. Grows from min to max, and further once the worker
/// has been idle for long. In a virtual machine a sleep costs 16 to 42 us of a core, whatever its
/// length and in any program (measured 2026-11): 200 us are 8 to 12 % of it, 400 us 4 to 8 %.
/// Packets wait for half a sleep on the average; longer ones cost less and delay packets more.
inline constexpr Nanos kUnsureSleepMin = micros(50);
inline constexpr Nanos kUnsureSleepMax = micros(200);
inline constexpr Nanos kUnsureSleepIdle = micros(400);
inline constexpr Nanos kUnsureIdleAfter = millis(100);
/// The same while another thread computes on the core, for this long after its last work. Then
/// the core does not halt, and a sleep costs two switches of threads.
inline constexpr Nanos kUnsureSleepContended = micros(20);
inline constexpr Nanos kUnsureContendedFor = millis(1);
/// By how much any sleep may be longer than asked for, for the kernel's convenience.
inline constexpr Nanos kTimerSlack = micros(1);
/// Longest sleep of a worker whose ports announce packets: its progress is watched.
inline constexpr Nanos kSleepMax = millis(100);

/// How long a new process may take to prepare what needs no port: DPDK clears all its memory.
inline constexpr Nanos kUpgradePreparation = seconds(60);
/// How long the new process waits for the old one's offer.
inline constexpr Nanos kUpgradePatience = seconds(5);
/// How long the workers may stand still, until the new process serves: the old one closes its
/// ports, then the new one opens them and maps clients' memory for NICs. A reset may take seconds.
/// Clients wait for a minute. Where the new process fails, the old one opens its ports again, which
/// comes on top. While it waits, the old process tells the service manager once in
/// kUpgradeSign that it is alive.
inline constexpr Nanos kUpgradePause = seconds(45);
/// How much of that the old process may take to close its ports: the new one needs the rest.
inline constexpr Nanos kUpgradePortsClosed = seconds(30);
inline constexpr Nanos kUpgradeSign = seconds(1);
/// How long a new process that has failed may take to end.
inline constexpr Nanos kUpgradeEnd = seconds(5);
/// How long the workers may take to stop while they and the control thread owe each other no
/// answer, and the pause between two attempts. On a busy machine a worker may not run for a second.
inline constexpr Nanos kUpgradeRest = seconds(2);
inline constexpr unsigned kUpgradeTryUs = 1000;
/// How long the old process waits until what clients register already is registered. Requests that
/// come meanwhile are left to the new process.
inline constexpr Nanos kUpgradeRegistrations = seconds(30);
/// How long of that it takes more of what is slow. Clients that keep their mappings locked have two
/// at the memory helper at a time, a second each: those that still wait are copied. Arenas that a
/// thread would map are refused.
inline constexpr Nanos kUpgradeMappings = seconds(10);
/// Rounds of taking what workers still send each other.
inline constexpr int kUpgradeTries = 1000;

}  // namespace lyre
