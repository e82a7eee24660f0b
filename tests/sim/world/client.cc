#include "tests/sim/world/client.h"

#include <algorithm>
#include <utility>

namespace lyre::sim {
namespace {

constexpr uint64_t kCopyBytes = 1 << 16;
constexpr uint32_t kSendsUnderWayMax = 64;
/// For a port that is in TIME-WAIT.
constexpr Nanos kDialAgainPause = seconds(5);

/// The acceptor's view of a dialog's 4-tuple.
bool is_from(const Dialog& dialog, uint16_t dialer_port, const channel::Completion& accepted) {
  const auto& opened = accepted.body.opened;
  const IpAddress dialer = address_of(dialog.dialer_host, dialog.is_ipv6);
  return dialer_port == opened.remote_port &&
         std::equal(dialer.bytes.begin(), dialer.bytes.end(), opened.remote_address);
}

}  // namespace

Client::Client(worker::Worker& worker, uint32_t host, uint32_t index, const ClientOptions& options,
               std::span<const uint8_t> pool, Dialogs& dialogs)
    : host_(host),
      index_(index),
      options_(options),
      pool_(pool),
      dialogs_(dialogs),
      channel_(worker, index, options.is_lent, uint64_t{options.arena_blocks} * kBlockBytes,
               kCopyBytes) {
  for (uint32_t i = 0; i < dialogs.size(); ++i) {
    const Dialog& dialog = dialogs[i];
    const bool is_begun = dialog.ends[0].is_over || dialog.ends[0].is_open;
    if (dialog.dialer_host == host && dialog.dialer_client == index && !is_begun) {
      dials_.push_back(i);
    }
  }
  std::stable_sort(dials_.begin(), dials_.end(), [&](uint32_t a, uint32_t b) {
    return dialogs[a].starts_at < dialogs[b].starts_at;
  });
  for (uint32_t i = options.arena_blocks; i > 0; --i) free_blocks_.push_back(i - 1);
  if (options.registered_blocks == 0) return;
  registered_.resize(size_t{options.registered_blocks} * kBlockBytes);
  channel_.add_region(region_name(), registered_.data(), registered_.size());
}

uint32_t Client::region_name() const { return worker::kContextsMax + 1 + index_; }

void Client::on_region_added() {
  for (uint32_t i = 0; i < options_.registered_blocks; ++i) {
    free_blocks_.push_back(options_.arena_blocks + i);
  }
}

uint8_t* Client::memory_of(uint32_t block) {
  return is_in_arena(block)
             ? channel_.arena() + size_t{block} * kBlockBytes
             : registered_.data() + size_t{block - options_.arena_blocks} * kBlockBytes;
}

void Client::submit(const EndState& end, uint32_t block, uint32_t bytes) {
  const uint32_t at = is_in_arena(block) ? block : block - options_.arena_blocks;
  channel_.send(end.name, uint64_t{at} * kBlockBytes, bytes,
                is_in_arena(block) ? 0 : region_name());
}

size_t Client::step(Nanos now, Rng& rng) {
  if (!has_listened_) {
    has_listened_ =
        channel_.listen(static_cast<uint16_t>(kServicePort + index_), UINT64_MAX, options_.backlog);
  }
  size_t work = 0;
  const uint64_t limit = 1 + rng.below(options_.step_events);
  while (work < limit) {
    const channel::Completion entry = next(now);
    if (entry.event == channel::Event::kNone) break;
    on_completion(entry, now);
    ++work;
  }
  work += dial(now);
  work += talk(now);
  return work + give_back(now);
}

/// The dialer's client may not have read yet which port its worker chose. What was accepted from
/// there waits for that, with all that follows it.
channel::Completion Client::next(Nanos now) {
  if (held_.event == channel::Event::kNone) held_ = channel_.next();
  if (is_too_early(held_, now)) return {};
  return std::exchange(held_, {});
}

/// A dialog that may have been dialed here has no port yet.
bool Client::is_too_early(const channel::Completion& entry, Nanos now) const {
  if (entry.event != channel::Event::kAccepted || accepted_dialog(entry)) return false;
  return std::any_of(dialogs_.begin(), dialogs_.end(), [&](const Dialog& d) {
    const bool is_here = d.dialer_host != host_ && d.acceptor_client == index_;
    const bool is_under_way = d.starts_at <= now && !d.ends[0].is_over;
    return is_here && is_under_way && d.shares_ports && d.used_port == 0;
  });
}

std::string Client::describe() const {
  std::string text = std::to_string(active_.size()) + " open, " +
                     std::to_string(dials_.size() - next_dial_) + " to dial, " +
                     std::to_string(owed_.size()) + " slots owed, " +
                     std::to_string(free_blocks_.size()) + " blocks free";
  if (held_.event != channel::Event::kNone) text += ", an accept that nobody dialed waits";
  return text;
}

Nanos Client::next_deadline(Nanos now) const {
  Nanos first = next_dial_ < dials_.size() ? dialogs_[dials_[next_dial_]].starts_at : kNever;
  if (!owed_.empty()) first = earlier(first, owed_.front().at);
  for (const Seat& seat : active_) {
    const EndState& end = dialogs_[seat.dialog].ends[seat.end];
    const bool has_more = end.queued_bytes < dialogs_[seat.dialog].plans[seat.end].send_bytes;
    // The pause is over: the end waits for room, which only the worker can free.
    if (has_more && !end.has_left && end.next_send_at > now) {
      first = earlier(first, end.next_send_at);
    }
  }
  return first;
}

void Client::detach() {
  for (const Owed& owed : owed_) compare_again(owed);
  channel_.detach();
  for (const Seat& seat : active_) {
    EndState& end = dialogs_[seat.dialog].ends[seat.end];
    end.is_over = true;
    end.status = channel::EndStatus::kAborted;
  }
  active_.clear();
  owed_.clear();
}

void Client::fail(const std::string& text) {
  if (failure_.empty()) {
    failure_ = "host " + std::to_string(host_) + " client " + std::to_string(index_) + ": " + text;
  }
}

const Client::Seat* Client::seat_of(const channel::SessionName& name) const {
  if (name.index >= seats_.size()) return nullptr;
  const Seat& seat = seats_[name.index];
  return seat.generation == name.generation && seat.dialog != UINT32_MAX ? &seat : nullptr;
}

void Client::sit(const channel::SessionName& name, uint32_t dialog, uint32_t end) {
  EndState& state = dialogs_[dialog].ends[end];
  if (state.is_open) return fail("dialog " + std::to_string(dialog) + " was opened twice");
  state.name = name;
  state.is_open = true;
  if (name.index >= seats_.size()) seats_.resize(name.index + 1);
  seats_[name.index] = {.generation = name.generation, .dialog = dialog, .end = end};
  active_.push_back(seats_[name.index]);
}

void Client::on_completion(const channel::Completion& entry, Nanos now) {
  switch (entry.event) {
    case channel::Event::kListening:
      return;
    case channel::Event::kConnecting:
      return on_connecting(entry, now);
    case channel::Event::kListenFailed:
      return fail("cannot listen");
    case channel::Event::kAccepted:
      return on_accepted(entry);
    case channel::Event::kConnected:
      return on_connected(entry);
    case channel::Event::kConnectFailed:
      return on_connect_failed(entry, now);
    case channel::Event::kData:
      return on_data(entry, now);
    default:
      break;
  }
  const Seat* seat = seat_of(entry.session);
  if (seat == nullptr) return fail("a completion of a session that does not exist");
  EndState& end = dialogs_[seat->dialog].ends[seat->end];
  if (entry.event == channel::Event::kSendDone) {
    on_send_done(end, entry.body.send_done.descriptors);
  } else if (entry.event == channel::Event::kPeerFinished) {
    end.has_heard_finish = true;
  } else if (entry.event == channel::Event::kEnded) {
    on_end(*seat, entry.status);
  } else {
    fail("an event that is none");
  }
}

/// Of those that share the port the one that was dialed last: the 4-tuple was free then. Empty
/// where that one was accepted before.
std::optional<uint32_t> Client::accepted_dialog(const channel::Completion& entry) const {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < dialogs_.size(); ++i) {
    const Dialog& dialog = dialogs_[i];
    const uint16_t port = dialog.shares_ports ? dialog.used_port : dialog.dialer_port;
    const bool is_here = dialog.dialer_host != host_ && dialog.acceptor_client == index_;
    const bool has_failed = dialog.ends[0].is_over && !dialog.ends[0].is_open;
    if (!is_here || !is_from(dialog, port, entry)) continue;
    if (dialog.shares_ports && has_failed) continue;
    if (!found || dialogs_[*found].dialed_at < dialog.dialed_at) found = i;
  }
  if (found && dialogs_[*found].shares_ports && dialogs_[*found].ends[1].is_open) return {};
  return found;
}

void Client::on_accepted(const channel::Completion& entry) {
  const std::optional<uint32_t> dialog = accepted_dialog(entry);
  if (!dialog) return fail("accepted a connection that was not dialed");
  sit(entry.session, *dialog, 1);
}

void Client::on_connecting(const channel::Completion& entry, Nanos now) {
  Dialog& dialog = dialogs_[entry.body.opened.cookie];
  if (dialog.dialer_port != 0 && entry.body.opened.local_port != dialog.dialer_port) {
    return fail("another port than was asked for");
  }
  dialog.used_port = entry.body.opened.local_port;
  dialog.dialed_at = now;
}

void Client::on_connected(const channel::Completion& entry) {
  const uint64_t dialog = entry.body.opened.cookie;
  if (dialog >= dialogs_.size() || entry.body.opened.local_port != dialogs_[dialog].used_port) {
    return fail("connected to what was not dialed");
  }
  --unanswered_;
  sit(entry.session, static_cast<uint32_t>(dialog), 0);
}

void Client::on_connect_failed(const channel::Completion& entry, Nanos now) {
  const auto index = static_cast<uint32_t>(entry.body.opened.cookie);
  Dialog& dialog = dialogs_[index];
  --unanswered_;
  const bool is_port_taken = entry.status == channel::EndStatus::kAddressInUse;
  if (dialog.shares_ports && is_port_taken) return dial_again(index, now + kDialAgainPause);
  dialog.ends[0].is_over = true;
  dialog.ends[0].status = entry.status;
}

void Client::dial_again(uint32_t dialog, Nanos at) {
  dialogs_[dialog].starts_at = at;
  const auto first = dials_.begin() + static_cast<ptrdiff_t>(next_dial_);
  const auto place =
      std::find_if(first, dials_.end(), [&](uint32_t d) { return dialogs_[d].starts_at > at; });
  dials_.insert(place, dialog);
}

void Client::on_data(const channel::Completion& entry, Nanos now) {
  const Seat* seat = seat_of(entry.session);
  if (seat == nullptr) return fail("data of a session that does not exist");
  Dialog& dialog = dialogs_[seat->dialog];
  EndState& end = dialog.ends[seat->end];
  const uint64_t seed = dialog.stream_seed(1 - seat->end);
  for (uint32_t i = 0; i < entry.count && i < channel::kLentSlicesMax; ++i) {
    const channel::LentSlice& slice = entry.body.data[i];
    const uint8_t* bytes =
        (entry.pool == channel::kPoolContext ? channel_.memory() : pool_.data()) + slice.offset;
    const test::LentBytes lent{slice.slot, {bytes, slice.bytes}, seed, end.received_bytes};
    end.is_equal &= lent.is_equal();
    end.received_bytes += slice.bytes;
    owed_.push_back({now + options_.read_pause, seat->dialog, lent});
  }
  if (end.has_heard_finish) fail("data after the peer's end");
  if (end.received_bytes > dialog.plans[1 - seat->end].send_bytes)
    fail("more bytes than were sent");
  if (!end.is_equal) fail("wrong bytes in dialog " + std::to_string(seat->dialog));
}

void Client::on_send_done(EndState& end, uint64_t descriptors) {
  if (descriptors < end.sends_done || descriptors > end.sends_queued) {
    return fail("sends are done that never were");
  }
  for (; end.sends_done < descriptors; ++end.sends_done) {
    free_blocks_.push_back(end.blocks.front());
    end.blocks.pop_front();
  }
}

void Client::on_end(const Seat& seat, channel::EndStatus status) {
  EndState& end = dialogs_[seat.dialog].ends[seat.end];
  end.is_over = true;
  end.status = status;
  // Submissions in the ring are ignored by the worker, so their memory is free all the same.
  for (const uint32_t block : end.blocks) free_blocks_.push_back(block);
  end.blocks.clear();
  const uint32_t dialog = seat.dialog;
  const uint32_t which = seat.end;
  std::erase_if(active_, [&](const Seat& s) { return s.dialog == dialog && s.end == which; });
  seats_[end.name.index] = {};
}

size_t Client::dial(Nanos now) {
  size_t count = 0;
  while (next_dial_ < dials_.size() && dialogs_[dials_[next_dial_]].starts_at <= now) {
    const Dialog& dialog = dialogs_[dials_[next_dial_]];
    const Endpoint remote{.address = address_of(1 - host_, dialog.is_ipv6),
                          .port = static_cast<uint16_t>(kServicePort + dialog.acceptor_client)};
    const Endpoint local{.address = address_of(host_, dialog.is_ipv6), .port = dialog.dialer_port};
    if (!channel_.connect(remote, dials_[next_dial_], local)) return count;
    ++next_dial_;
    ++unanswered_;
    ++count;
  }
  return count;
}

size_t Client::talk(Nanos now) {
  size_t work = 0;
  for (const Seat& seat : active_) {
    Dialog& dialog = dialogs_[seat.dialog];
    if (dialog.ends[seat.end].has_left) continue;
    work += send_some(dialog, seat.end, now);
    if (leave(dialog, seat.end)) ++work;
  }
  return work;
}

size_t Client::send_some(Dialog& dialog, uint32_t which, Nanos now) {
  const EndPlan& plan = dialog.plans[which];
  EndState& end = dialog.ends[which];
  size_t count = 0;
  while (end.queued_bytes < plan.send_bytes && end.next_send_at <= now && !free_blocks_.empty() &&
         end.blocks.size() < kSendsUnderWayMax && channel_.submission_room() > 0) {
    const uint32_t bytes =
        std::min({plan.chunk_bytes, plan.send_bytes - end.queued_bytes, kBlockBytes});
    const uint32_t block = free_blocks_.back();
    free_blocks_.pop_back();
    fill(block, dialog.stream_seed(which), end.queued_bytes, bytes);
    submit(end, block, bytes);
    end.blocks.push_back(block);
    end.queued_bytes += bytes;
    ++end.sends_queued;
    ++count;
    if (plan.pause.value > 0) end.next_send_at = now + plan.pause;
  }
  return count;
}

bool Client::leave(Dialog& dialog, uint32_t which) {
  const EndPlan& plan = dialog.plans[which];
  EndState& end = dialog.ends[which];
  const bool has_sent = end.queued_bytes == plan.send_bytes;
  channel::Op how = channel::Op::kNone;
  switch (plan.leaving) {
    case Leaving::kShutdownWhenSent:
      if (has_sent) how = channel::Op::kShutdown;
      break;
    case Leaving::kShutdownWhenHeard:
      if (has_sent && end.has_heard_finish) how = channel::Op::kShutdown;
      break;
    case Leaving::kCloseWhenHeard:
      if (has_sent && end.has_heard_finish) how = channel::Op::kClose;
      break;
    case Leaving::kCloseWhenSent:
      if (has_sent) how = channel::Op::kClose;
      break;
    case Leaving::kAbortHalfway:
      if (end.queued_bytes >= plan.send_bytes / 2) how = channel::Op::kAbort;
      break;
  }
  if (how == channel::Op::kNone || channel_.submission_room() == 0) return false;
  end.has_left = channel_.tell(how, end.name);
  return end.has_left;
}

size_t Client::give_back(Nanos now) {
  size_t count = 0;
  while (!owed_.empty() && owed_.front().at <= now && channel_.release(owed_.front().lent.slot)) {
    compare_again(owed_.front());  // the worker has not taken the release yet
    owed_.pop_front();
    ++count;
  }
  return count;
}

/// Nobody may write to what was lent until it is given back.
void Client::compare_again(const Owed& owed) {
  if (!owed.lent.is_equal()) {
    fail("lent bytes have changed in dialog " + std::to_string(owed.dialog));
  }
}

void Client::fill(uint32_t block, uint64_t seed, uint32_t place, uint32_t bytes) {
  uint8_t* target = memory_of(block);
  for (uint32_t i = 0; i < bytes; ++i) target[i] = test::pattern(seed, place + i);
}

}  // namespace lyre::sim
