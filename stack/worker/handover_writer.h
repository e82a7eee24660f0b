#pragma once

#include <vector>

#include "stack/record/stream.h"
#include "stack/tcp/receive_queue.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/handover_records.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// A worker as records, for the worker of another process that replaces it. State that is learned
/// again is not written: neighbours and paths. Nor are packets that wait for a port, which TCP
/// sends again. The worker is not changed and may continue itself. Thread: the worker, between two
/// turns.
class HandoverWriter {
 public:
  HandoverWriter(const WorkerState& state, tcp::Engine& engine, io::PacketMemory& memory)
      : state_(state), engine_(engine), memory_(memory) {}

  void write(uint32_t session_generations, record::Writer& out);

 private:
  void write_context(uint32_t index, record::Writer& out) const;
  void write_session(uint32_t conn, record::Writer& out);
  void collect_text(uint32_t conn);
  void collect_payload(SeqNum start, const PayloadSlice& payload);

  const WorkerState& state_;
  tcp::Engine& engine_;
  io::PacketMemory& memory_;
  /// Text of one session: ranges without a gap, and no longer than a record may be.
  struct Text {
    SeqNum start;
    std::vector<uint8_t> bytes;
  };
  std::vector<Text> texts_;
};

}  // namespace lyre::worker
