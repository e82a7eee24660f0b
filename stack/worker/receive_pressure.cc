#include "stack/worker/receive_pressure.h"

#include <algorithm>
#include <utility>

#include "stack/session/session.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

void ReceivePressure::on_limit(uint32_t context) {
  if (context == session::kNoContext || sessions_to_prune_ > 0) return;
  if (state_.contexts[context].state != Context::State::kAttached) return;
  if (state_.now < prune_next_at_) return;
  prune_next_at_ = state_.now + kPressurePause;
  pruned_context_ = context;
  sessions_to_prune_ = state_.contexts[context].sessions.size();
}

void ReceivePressure::on_pause(Nanos paused) {
  if (short_at_ != kNever) short_at_ += paused;
  short_since_ += paused;
  next_at_ += paused;
}

size_t ReceivePressure::take_back_some() {
  const uint32_t slots_free = state_.memory.rx_slots_free();
  const bool was_short = is_short_;
  look_at(slots_free);
  if (is_short_ && !was_short) begin_shortage();
  if (sessions_to_prune_ > 0) return prune_some();
  is_watching_ = !state_.accounts.is_plentiful(slots_free);
  return is_short_ && state_.now >= next_at_ ? relieve_reserve() : 0;
}

/// While a part of the reserve is missing, users above their floor get nothing, also of what their
/// readers wait for: that may not last.
void ReceivePressure::look_at(uint32_t slots_free) {
  if (!state_.accounts.is_reserve(slots_free)) {
    is_short_ = false;
    short_at_ = kNever;
    return;
  }
  if (short_at_ == kNever) short_at_ = state_.now + kGreedGrace;
  is_short_ = is_short_ || state_.accounts.is_short(slots_free) || state_.now >= short_at_;
}

/// First the greediest client loses what is out of order. The rest waits for the next step.
void ReceivePressure::begin_shortage() {
  next_at_ = state_.now + kPressurePause;
  prune_next_at_ = state_.now;
  begin_grace();
  on_limit(greediest());
}

void ReceivePressure::begin_grace() {
  short_since_ = state_.now;
  victim_ = session::kNoContext;
  for (const uint32_t index : state_.contexts.in_use()) {
    state_.contexts[index].kept_slots = state_.accounts.held_by(index);
  }
}

/// The next session of a pass over the context's list: it goes to the end.
uint32_t ReceivePressure::rotate(Context& context) {
  const uint32_t conn = context.sessions.front();
  context.sessions.remove(state_.sessions, conn);
  context.sessions.push_back(state_.sessions, conn);
  return conn;
}

/// A context that is being detached counts its sessions off the front of the same list.
size_t ReceivePressure::prune_some() {
  Context& context = state_.contexts[pruned_context_];
  if (context.state != Context::State::kAttached) {
    sessions_to_prune_ = 0;
    return 0;
  }
  sessions_to_prune_ = std::min(sessions_to_prune_, context.sessions.size());
  const uint32_t count = std::min(sessions_to_prune_, kSessionsPerDetachStepMax);
  for (uint32_t i = 0; i < count; ++i) parts_.payload.prune(rotate(context));
  sessions_to_prune_ -= count;
  return count;
}

size_t ReceivePressure::relieve_reserve() {
  next_at_ = state_.now + kPressurePause;
  note_kept();
  uint32_t index = session::kNoContext;
  if (state_.now - short_since_ >= kGreedGrace) {
    index = attached_with_most([this](uint32_t c) { return state_.contexts[c].kept_slots; });
  }
  const bool may_expel = index != session::kNoContext;
  if (!may_expel) index = greediest();
  if (index != victim_) read_count_ = 0;
  victim_ = index;
  if (index == session::kNoContext) return 0;
  Context& context = state_.contexts[index];
  const size_t count = reset_unread(context);
  if (may_expel && read_count_ >= context.sessions.size()) {
    begin_grace();  // its slots come back when it is detached
    parts_.replies.expel(context, "keeps receive slots that it was lent while none are left");
  }
  return count;
}

void ReceivePressure::note_kept() {
  for (const uint32_t index : state_.contexts.in_use()) {
    uint32_t& kept = state_.contexts[index].kept_slots;
    kept = std::min(kept, state_.accounts.held_by(index));
  }
}

uint32_t ReceivePressure::greediest() {
  return attached_with_most([this](uint32_t c) { return state_.accounts.held_by(c); });
}

/// What `slots` says of the attached clients of each user together. What others have comes back.
template <typename Slots>
void ReceivePressure::add_up_users(Slots slots) {
  std::fill(of_user_.begin(), of_user_.end(), 0);
  for (const uint32_t index : state_.contexts.in_use()) {
    if (state_.contexts[index].state != Context::State::kAttached) continue;
    of_user_[state_.accounts.user_of(index)] += slots(index);
  }
}

/// Of the user with most for its weight of what `slots` says, the attached client with most.
/// Clients that are safe are left out.
template <typename Slots>
uint32_t ReceivePressure::attached_with_most(Slots slots) {
  add_up_users(slots);
  uint32_t found = session::kNoContext;
  std::pair<uint64_t, uint64_t> most{};  // of the user and of the client
  uint64_t weight_of_most = 1;
  for (const uint32_t index : state_.contexts.in_use()) {
    if (state_.contexts[index].state != Context::State::kAttached) continue;
    const uint32_t of_client = slots(index);
    const uint32_t of_user = of_user_[state_.accounts.user_of(index)];
    if (of_client == 0 || state_.accounts.is_safe(of_client, of_user)) continue;
    const uint64_t weight = state_.accounts.weight_of(index);
    const std::pair here{of_user * weight_of_most, of_client * weight_of_most};
    if (here <= std::pair{most.first * weight, most.second * weight}) continue;
    most = {of_user, of_client};
    weight_of_most = weight;
    found = index;
  }
  return found;
}

/// Resets sessions of the client that keep bytes which it has not been told of, until the
/// reserve is whole. Returns how many.
size_t ReceivePressure::reset_unread(Context& context) {
  size_t count = 0;
  const uint32_t looked_max = std::min(context.sessions.size(), kSessionsPerDetachStepMax);
  for (uint32_t looked = 0; looked < looked_max; ++looked) {
    if (!state_.accounts.is_reserve(state_.memory.rx_slots_free())) break;
    const uint32_t conn = rotate(context);
    if (!state_.session(conn).has_readable) {
      ++read_count_;
      continue;
    }
    read_count_ = 0;
    parts_.lifecycle.abort(conn, channel::EndStatus::kNoResources);
    parts_.lifecycle.lose_unread(conn);
    ++count;
  }
  return count;
}

/// An ACK with the session's window follows where text was refused that may come now. Each session
/// counts as a segment that has taken its slot, so that few slots do not wake many sessions, which
/// would be refused again.
/// The open window is not withdrawn when others take the slot: the sender is told of a window of
/// zero when its text is refused again. A Linux sender whose retransmission timer has expired
/// (CA_Loss) sends nothing on this ACK, but when the timer expires again, up to two minutes later.
/// With an open window a retransmission counts towards its tcp_retries2. It ends with ETIMEDOUT if
/// that happens twice without any text being taken, the second time 924 s after its first
/// retransmission.
size_t ReceivePressure::wake_refused() {
  wake_next_at_ = state_.now + kPressurePause;
  uint32_t slots_free = state_.memory.rx_slots_free();
  size_t woken = 0;
  state_.refused.step(kConnectionsPerWalkStepMax, [&](uint32_t conn) {
    if (!state_.engine.is_open(conn)) return true;
    if (slots_free == 0 || !may_have_slot(conn, slots_free - 1)) return false;
    --slots_free;
    ++woken;
    parts_.payload.return_charge(conn, 0);
    return true;
  });
  return woken;
}

/// Whether the next segment in order is taken: SegmentInput::has_share().
bool ReceivePressure::may_have_slot(uint32_t conn, uint32_t slots_free) const {
  const session::Session& refused = state_.sessions[conn];
  if (state_.accounts.may_hold(refused.context, slots_free)) return true;
  if (!state_.accounts.may_overdraw(refused.context, slots_free)) return false;
  return has_few_unread(conn);
}

bool ReceivePressure::has_few_unread(uint32_t conn) const {
  return !state_.sessions[conn].has_readable ||
         state_.engine.charged_bytes(conn) < kRxFairSlots * state_.memory.rx_slot_bytes();
}

}  // namespace lyre::worker
