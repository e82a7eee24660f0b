#pragma once

/// Drives an NCCL net plugin as NCCL does, without NCCL and without a GPU. `lyre allreduce`,
/// tests/adapter and the unit tests link this library; tests/bench uses it through
/// `lyre allreduce`.
///
/// | header | what it has |
/// |---|---|
/// | net_plugin.h | a plugin's entry points, one interface for the ABI versions 8 to 12 |
/// | plugin_log.h | the lines that plugins log |
/// | profiler.h | the profiler that the plugin's library may export |
/// | communicator.h | one rank: rings to its neighbours, and NCCL's threads |
/// | ring.h, operation.h | the messages of a ring all-reduce |
///
/// Owner: each object says what it owns. What an argument points to stays the caller's.
/// Thread: a Communicator belongs to one thread; it makes the threads that NCCL would have. The log
/// belongs to the process.
/// Units: sizes are bytes, counts of values are float32 elements; names end in other units.
/// Fails: NetPlugin returns the plugin's result; the other classes throw Failure (failure.h), whose
/// text is one line with the last warning of the plugin.
#include "tools/nccl_emulator/communicator.h"
#include "tools/nccl_emulator/failure.h"
#include "tools/nccl_emulator/net_plugin.h"
#include "tools/nccl_emulator/operation.h"
#include "tools/nccl_emulator/plugin_log.h"
#include "tools/nccl_emulator/profiler.h"
#include "tools/nccl_emulator/ring.h"
