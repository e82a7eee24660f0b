#include "stack/worker/handover_writer.h"

#include <algorithm>

#include "stack/tcp/connection_record.h"

namespace lyre::worker {

namespace {

using record::FieldWriter;
using record::Kind;

SessionRecord describe(const session::Session& session, uint32_t conn) {
  return {.conn = conn,
          .generation = session.generation,
          .context = session.context,
          .listener = session.listener,
          .listener_generation = session.listener_generation,
          .cookie = session.cookie,
          .opened_at = session.opened_at,
          .sends_announced_at = session.sends_announced_at,
          .finished_count = session.sends.finished_count,
          .announced_sends = session.announced_sends,
          .head_acked_bytes = session.sends.head_acked_bytes,
          .flow_label = session.flow_label,
          .is_passive = session.is_passive,
          .is_embryonic = session.is_embryonic,
          .was_announced = session.was_announced,
          .is_shut_down = session.is_shut_down,
          .is_closed_by_client = session.is_closed_by_client,
          .was_retransmitted = session.was_retransmitted,
          .is_over = session.is_over,
          .must_announce_open = session.must_announce_open,
          .must_announce_progress = session.must_announce_progress,
          .is_told_closed = session.is_told_closed,
          .must_announce_finish = session.must_announce_finish,
          .must_announce_end = session.must_announce_end,
          .end_status = session.end_status,
          .marking = session.marking,
          .copied_tx_bytes = session.copied_tx_bytes,
          .copied_rx_bytes = session.copied_rx_bytes,
          .client_copied_tx_bytes = session.client_copied_tx_bytes,
          .client_copied_rx_bytes = session.client_copied_rx_bytes,
          .piece_count = session.sends.piece_count,
          .text_count = 0};
}

void write_loan(Kind kind, const LoanRecord& loan, record::Writer& out) {
  out.add(kind, kHandoverVersion, [&](FieldWriter& fields) { list_loan(fields, loan); });
}

/// What the client has of received bytes, as records of its context.
std::vector<LoanRecord> loans_of(const WorkerState& state, uint32_t context) {
  std::vector<LoanRecord> loans;
  state.inherited_loans.for_each_of(context, [&](const InheritedLoan& loan) {
    loans.push_back({loan.slot, loan.session, loan.generation, loan.charge_bytes});
  });
  state.loans.for_each_of(context, [&](uint32_t slot, const SlotLoan& loan) {
    loans.push_back({slot, loan.session, loan.generation, state.memory.rx_slot_bytes()});
  });
  return loans;
}

std::vector<LoanRecord> blocks_of(const Context& context) {
  std::vector<LoanRecord> blocks;
  context.copy_blocks.for_each_given([&](uint32_t block, const CopyBlocks::Held& held) {
    blocks.push_back({block, held.session, held.generation, held.charge_bytes});
  });
  return blocks;
}

std::vector<ListenerRecord> listeners_of(const Listeners& listeners) {
  std::vector<ListenerRecord> records;
  for (uint32_t i = 0; i < listeners.index_bound(); ++i) {
    if (!listeners.is_open(i)) continue;
    const Listener& listener = listeners[i];
    records.push_back({.index = i,
                       .generation = listener.generation,
                       .context = listener.context,
                       .local = listener.local,
                       .cookie = listener.cookie,
                       .backlog = listener.backlog});
  }
  return records;
}

}  // namespace

void HandoverWriter::write(uint32_t session_generations, record::Writer& out) {
  const std::vector<ListenerRecord> listeners = listeners_of(state_.listeners);
  const WorkerRecord worker{.session_generations = session_generations,
                            .listener_generations = state_.listeners.generations(),
                            .context_count = static_cast<uint32_t>(state_.contexts.in_use().size()),
                            .listener_count = static_cast<uint32_t>(listeners.size()),
                            .session_count = engine_.connection_count(),
                            .last_cookie_at = engine_.records().last_cookie_at()};
  out.add(Kind::kWorker, kHandoverVersion,
          [&](FieldWriter& fields) { list_worker(fields, worker); });
  std::vector<uint32_t> contexts(state_.contexts.in_use().begin(), state_.contexts.in_use().end());
  std::sort(contexts.begin(), contexts.end());
  for (const uint32_t index : contexts) write_context(index, out);
  for (const ListenerRecord& listener : listeners) {
    out.add(Kind::kListener, kHandoverVersion,
            [&](FieldWriter& fields) { list_listener(fields, listener); });
  }
  for (uint32_t conn = 0; conn < engine_.index_bound(); ++conn) {
    if (engine_.is_open(conn)) write_session(conn, out);
  }
  out.add(Kind::kEnd, kHandoverVersion, [](FieldWriter&) {});
}

void HandoverWriter::write_context(uint32_t index, record::Writer& out) const {
  const Context& context = state_.contexts[index];
  const std::vector<LoanRecord> loans = loans_of(state_, index);
  const std::vector<LoanRecord> blocks = blocks_of(context);
  std::vector<uint32_t> leaving;
  state_.client_memory.for_each_of(index, [&](const ClientMemory::Region& region) {
    if (region.is_leaving) leaving.push_back(region.name);
  });
  const ContextRecord record{.index = index,
                             .submissions_position = context.submissions.position(),
                             .completions_position = context.completions.position(),
                             .is_expelled = context.state == Context::State::kExpelled,
                             .is_detaching = context.state == Context::State::kDetaching,
                             .resets_sessions = context.resets_sessions,
                             .linger_until = context.linger_until,
                             .loan_count = static_cast<uint32_t>(loans.size()),
                             .copy_block_count = static_cast<uint32_t>(blocks.size()),
                             .leaving_count = static_cast<uint32_t>(leaving.size())};
  out.add(Kind::kContext, kHandoverVersion,
          [&](FieldWriter& fields) { list_context(fields, record); });
  for (const LoanRecord& loan : loans) write_loan(Kind::kLoan, loan, out);
  for (const LoanRecord& block : blocks) write_loan(Kind::kCopyBlock, block, out);
  for (const uint32_t name : leaving) {
    out.add(Kind::kLeaving, kHandoverVersion, [&](FieldWriter& fields) { fields.number(name); });
  }
  state_.notifier.for_each_failed_open(context, [&](const FailedOpen& failed) {
    out.add(Kind::kFailedOpen, kHandoverVersion,
            [&](FieldWriter& fields) { list_failed_open(fields, failed); });
  });
}

void HandoverWriter::write_session(uint32_t conn, record::Writer& out) {
  const session::Session& session = state_.sessions[conn];
  collect_text(conn);
  SessionRecord record = describe(session, conn);
  record.text_count = static_cast<uint32_t>(texts_.size());
  out.add(Kind::kSession, kHandoverVersion,
          [&](FieldWriter& fields) { list_session(fields, record); });
  state_.sends.for_each(session.sends, [&](const BufRef& piece) {
    out.add(Kind::kPiece, kHandoverVersion,
            [&](FieldWriter& fields) { list_piece(fields, piece); });
  });
  engine_.records().write(conn, out);
  for (const Text& text : texts_) {
    out.add(Kind::kReceived, kHandoverVersion, [&](FieldWriter& fields) {
      fields.seq(text.start);
      fields.bytes(text.bytes);
    });
  }
}

/// All that was received and that the client was not told of. What the session has taken from the
/// engine lies before what the engine has.
void HandoverWriter::collect_text(uint32_t conn) {
  texts_.clear();
  const tcp::ReceiveQueue queue = engine_.receive_queue(conn);
  const session::Chain& chain = state_.sessions[conn].chain;
  if (chain.slot != session::kNoIndex) {
    const SeqNum end = queue.first_in_order().value_or(queue.text_end());
    collect_payload(end - chain.bytes,
                    {.handle = {chain.slot}, .offset = chain.offset, .length = chain.bytes});
  }
  queue.for_each(
      [this](const tcp::ReceivedText& text) { collect_payload(text.start, text.payload); });
}

/// A payload is a chain of packets.
void HandoverWriter::collect_payload(SeqNum start, const PayloadSlice& payload) {
  uint32_t slot = payload.handle.slot;
  uint32_t offset = payload.offset;
  for (uint32_t left = payload.length; left > 0;) {
    const io::PacketBuf& packet = *memory_.rx_packet(slot);
    slot = packet.next_slot;
    if (offset >= packet.length) {
      offset -= packet.length;
      continue;
    }
    const uint32_t bytes = std::min(left, packet.length - offset);
    const bool continues =
        !texts_.empty() &&
        texts_.back().start + static_cast<uint32_t>(texts_.back().bytes.size()) == start &&
        texts_.back().bytes.size() + bytes <= kTextBytesMax;
    if (!continues) texts_.push_back({.start = start, .bytes = {}});
    const uint8_t* from = packet.data + offset;
    texts_.back().bytes.insert(texts_.back().bytes.end(), from, from + bytes);
    start += bytes;
    left -= bytes;
    offset = 0;
  }
}

}  // namespace lyre::worker
