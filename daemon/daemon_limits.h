#pragma once

#include <cstdint>

#include "stack/base/nanos.h"

/// Every bound of the daemon's control side, with what it costs.
namespace lyre {

/// Connections of the control socket that carry no context: people who look.
inline constexpr uint32_t kLookersMax = 128;
/// A connection that has asked for nothing by then is dropped.
inline constexpr Nanos kFirstRequestTimeout = seconds(10);
/// How often the workers' answers are taken.
inline constexpr Nanos kRepliesPeriod = millis(5);
/// How long a stopping daemon waits for its workers to reset their sessions.
inline constexpr Nanos kShutdownTimeout = seconds(2);
/// Receive copies of one worker for a context that is not lent to. Costs memory when touched.
inline constexpr uint64_t kCopyBytesPerWorker = uint64_t{16} << 20;
/// Rows of the stats segment a worker; 0.3 KiB each, when touched.
inline constexpr uint32_t kSessionRowsMax = 16384;
/// Sleep of an adaptive worker whose ports cannot wake it: grows from min to max.
inline constexpr Nanos kBlindSleepMin = micros(50);
inline constexpr Nanos kBlindSleepMax = micros(200);
/// Longest sleep of a worker whose ports can wake it: its progress is watched.
inline constexpr Nanos kWokenSleepMax = millis(100);

}  // namespace lyre
