#include "nccl_adapter/comm/queue_pairs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/bytes.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/rails.h"

namespace lyre::nccl_adapter {
namespace {

int64_t pause_ns(uint32_t failures) {
  return std::min(kOfferNsMin << std::min(failures, 10u), kOfferNsMax);
}

constexpr uint32_t k24Bits = (1u << 24) - 1;

// A frame that finds no room is left out: where the peer does not read them, they would use up
// memory.
void say(Lane& over, FrameHeader header, std::span<const uint8_t> payload) {
  if (!over.is_up() || over.version < kQueuePairVersion || over.transport->is_blocked()) return;
  header.bytes = static_cast<uint32_t>(payload.size());
  std::vector<uint8_t> frame(kFrameHeaderBytes + payload.size());
  encode(header, std::span<uint8_t, kFrameHeaderBytes>(frame.data(), kFrameHeaderBytes));
  std::copy(payload.begin(), payload.end(), frame.begin() + kFrameHeaderBytes);
  over.transport->send_small(frame);  // a failure shows when the lane is read on
}

void say_terms(Lane& over, const FrameHeader& header, const QueuePairTerms& terms) {
  std::array<uint8_t, kQueuePairTermsBytes> payload;
  encode(terms, payload);
  say(over, header, payload);
}

void say_decline(Lane& over, uint64_t number, uint64_t incarnation, const std::string& why) {
  const size_t bytes = std::min<size_t>(why.size(), kSmallPayloadBytesMax);
  say(over, {.type = FrameType::kDecline, .message = number, .offset = incarnation},
      {reinterpret_cast<const uint8_t*>(why.data()), bytes});
}

std::string why_no_place(const VerbsDevices* verbs) {
  if (verbs == nullptr) return "this process uses no RDMA device";
  return verbs->why_not().empty() ? "no RDMA port has an address that fits" : verbs->why_not();
}

}  // namespace

// ---- Lanes ----

QueuePairs::Place* QueuePairs::place(uint64_t number) const {
  return number < places_.size() ? places_[static_cast<size_t>(number)].get() : nullptr;
}

// Nothing else is attached to these lanes.
QueuePair* QueuePairs::queue_pair(const Lane& lane) {
  return static_cast<QueuePair*>(lane.transport.get());
}

void QueuePairs::grow(size_t count) {
  while (places_.size() < std::min(count, kQueuePairsMax)) {
    places_.push_back(
        std::make_unique<Place>(ground_.waiter, static_cast<uint16_t>(places_.size())));
    lanes_.push_back(&places_.back()->lane);
    lanes_.back()->is_for_queue_pairs = true;
    lanes_.back()->version = kQueuePairVersion;
  }
}

bool QueuePairs::carries(const Lane& lane) { return lane.is_up() && queue_pair(lane)->is_proven(); }

size_t QueuePairs::carrying() const {
  return static_cast<size_t>(
      std::count_if(lanes_.begin(), lanes_.end(), [](const Lane* lane) { return carries(*lane); }));
}

bool QueuePairs::writes(const Lane& lane, const Chunk& chunk) const {
  return queue_pair(lane)->places().find(chunk) != nullptr;
}

Lane* QueuePairs::choose(const Chunk& chunk) const {
  Lane* best = nullptr;
  for (const auto& place : places_) {
    Lane& lane = place->lane;
    if (!lane.is_up() || !queue_pair(lane)->has_room(chunk)) continue;
    const bool is_emptier =
        best == nullptr || lane.transport->unacked_bytes() < best->transport->unacked_bytes();
    if (is_emptier) best = &lane;
  }
  return best;
}

bool QueuePairs::reads(const Memory* memory) const {
  return std::any_of(places_.begin(), places_.end(), [&](const auto& place) {
    return place->lane.is_up() && queue_pair(place->lane)->sends().reads(memory);
  });
}

std::string QueuePairs::path_text(const Lane& lane) const {
  if (!lane.is_up() || !queue_pair(lane)->places().are_used()) return lane.path_text;
  const bool is_written =
      queue_pair(lane)->places().has_written() || lane.reader.has_written_payload;
  return is_written ? lane.path_text : lane.path_text + " unused";
}

void QueuePairs::flush() {
  for (const auto& place : places_) {
    Lane& lane = place->lane;
    if (lane.is_up() && lane.transport->is_blocked()) lane.transport->flush();
  }
}

// A device that is gone without a word completes nothing.
void QueuePairs::look(int64_t now_ns) {
  for (Lane* lane : lanes_) {
    if (!lane->is_up()) continue;
    if (carries(*lane)) place(lane->index)->has_carried = true;
    lane->look(now_ns);
    if (lane->transport->has_ended()) {
      give_up(*lane);
    } else if (lane->is_stalled(now_ns)) {
      give_up(*lane, "its device completes nothing", Loss::kOfPath);
    }
  }
}

void QueuePairs::close() {
  is_closed_ = true;
  for (const auto& place : places_) {
    place->made.reset();
    place->lane.drop();
  }
}

std::string QueuePairs::trouble() const {
  if (ground_.environment->verbs() == nullptr) return "no RDMA device is used here";
  return trouble_.empty() ? "the peer did not answer" : trouble_;
}

void QueuePairs::attach(Place& place, std::unique_ptr<QueuePair> queue_pair) {
  place.lane.path_text = queue_pair->path_text();
  place.lane.rail_text = "over RDMA";
  place.attached_ns = ground_.environment->now_ns();
  place.has_carried = false;
  place.lane.attach(std::move(queue_pair), place.incarnation, place.attached_ns);
  trouble_.clear();
  log_info("queue pair %u is there (%s)", place.lane.index, place.lane.path_text.c_str());
}

bool QueuePairs::on_frame(Lane& lane, bool is_sender) {
  const FrameHeader& header = lane.reader.frames.header();
  const std::span<const uint8_t> payload(lane.reader.small_payload);
  if (header.type == FrameType::kCredit) {
    return lane.is_for_queue_pairs && queue_pair(lane)->sends().on_credit(header.message);
  }
  if (header.type == FrameType::kPlace) {
    return lane.is_for_queue_pairs && is_sender && queue_pair(lane)->places().on_place(header);
  }
  const bool is_loss_of_another =
      lane.is_for_queue_pairs && !is_sender && header.type == FrameType::kDecline &&
      !(header.message == lane.index && header.offset == lane.incarnation);
  if (lane.is_for_queue_pairs && !is_loss_of_another) return false;
  if (lane.version < kQueuePairVersion) return false;
  if (header.type == FrameType::kDecline) {
    on_decline(header, payload);
    return true;
  }
  const bool may_come = is_sender == (header.type == FrameType::kAccept);
  if (!may_come) return false;
  return is_sender ? on_accept(header, payload, lane) : on_offer(header, payload, lane);
}

// ---- What is lost ----

void QueuePairs::note_failure(Place& place) {
  place.offer_ns = ground_.environment->now_ns() + pause_ns(place.failures++);
}

void QueuePairs::note_path_failure(Place& place) {
  note_failure(place);
  if (!is_none(place.own)) place.failed.note(place.own, place.remote);
}

// Said once as long as it stays the same.
void QueuePairs::note_none(Place& place, const std::string& why) {
  note_path_failure(place);
  if (why == trouble_) return;
  trouble_ = why;
  log_info("there is no queue pair %u: %s", place.lane.index, why.c_str());
}

// That this host has no RDMA device was said when the instance attached.
void QueuePairs::note_no_place(Place& place, const VerbsDevices& verbs) {
  note_failure(place);
  const std::string why = why_no_place(&verbs);
  if (why == trouble_) return;
  trouble_ = why;
  if (why == kNoDevice) return;
  log_info("there is no queue pair %u: %s", place.lane.index, why.c_str());
}

// A device reports a path that does not work when all its tries are over. The receiver sends
// nothing before it has heard something: over such a path its device reports nothing.
bool QueuePairs::has_lasted(const Place& place) const {
  return place.has_carried && ground_.environment->now_ns() - place.attached_ns >=
                                  kQueuePairProvenNs + place.lane.transport->patience_ns();
}

void QueuePairs::note_lost(const Lane& lane, const std::string& why, Loss loss) {
  Place& lost = *place(lane.index);
  const bool has_lasted_long = has_lasted(lost);
  if (has_lasted_long) {
    lost.failures = 0;
    lost.failed.forget();
  }
  const bool is_of_path = loss == Loss::kOfPath && !has_lasted_long;
  is_of_path ? note_path_failure(lost) : note_failure(lost);
  trouble_ = why;
  log_info("queue pair %u is lost (%s): %s", lane.index, lane.path_text.c_str(), why.c_str());
}

void QueuePairs::give_up(Lane& lane, const std::string& why, Loss loss) {
  note_lost(lane, why, loss);
  if (Lane* over = ground_.streams->for_queue_pairs(ground_.environment->now_ns())) {
    say_decline(*over, lane.index, lane.incarnation, why);
  }
  ground_.drop(lane);
}

// A port that is gone says nothing of paths: it is chosen again when it is back.
void QueuePairs::give_up(Lane& lane) {
  const bool has_port = ground_.environment->verbs()->have(place(lane.index)->own);
  const std::string why = queue_pair(lane)->why();
  give_up(lane, why, has_port ? Loss::kOfPath : Loss::kOther);
}

void QueuePairs::give_up_readers(const Memory* memory) {
  for (Lane* lane : lanes_) {
    if (lane->is_up() && queue_pair(*lane)->sends().reads(memory)) {
      give_up(*lane, "memory that it read was deregistered", Loss::kOther);
    }
  }
}

void QueuePairs::on_decline(const FrameHeader& header, std::span<const uint8_t> payload) {
  Place* named = place(header.message);
  if (named == nullptr || header.offset != named->incarnation) return;
  const std::string why = payload.empty()
                              ? "the peer sends again what it carried"
                              : "the peer says: " + get_text(payload, 0, payload.size());
  if (named->lane.is_up()) {
    note_lost(named->lane, why, Loss::kOfPath);  // as far as this side knows
    ground_.drop(named->lane);
  } else if (named->made != nullptr) {
    note_none(*named, why);
    named->made.reset();
  }
}

// ---- The side that sends ----

void QueuePairs::offer(const Address& remote, size_t device) {
  VerbsDevices* verbs = ground_.environment->verbs();
  const int64_t now_ns = ground_.environment->now_ns();
  if (verbs == nullptr || is_closed_) return;
  const bool is_due =
      places_.empty() || std::any_of(places_.begin(), places_.end(), [&](const auto& place) {
        return !place->lane.is_up() && now_ns >= place->offer_ns;
      });
  Lane* over = is_due ? ground_.streams->for_queue_pairs(now_ns) : nullptr;
  if (over == nullptr) return;
  verbs->look(now_ns);
  const VerbsChoice choice = verbs->offers(device, ground_.environment->ports(), remote);
  grow(std::max<size_t>(choice.queue_pairs, 1));
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& due = *places_[i];
    if (due.lane.is_up() || now_ns < due.offer_ns) continue;
    if (i < choice.queue_pairs) {
      offer_one(due, choice, *over);
    } else {
      due.made.reset();
      choice.queue_pairs == 0 ? note_no_place(due, *verbs) : note_failure(due);
    }
  }
}

std::unique_ptr<QueuePair> QueuePairs::make(Place& place, const VerbsChoice& choice,
                                            bool is_receiver, std::string* why) {
  const VerbsPlace& from = place.failed.choose(choice, place.lane.index, place.remote);
  place.own = from.gid.address;
  return QueuePair::make(from, use(place, is_receiver), why);
}

// Every second attempt is of the rail's own ports: one that failed because the peer had no port, or
// no path for a moment, is not left for long.
void QueuePairs::offer_one(Place& place, const VerbsChoice& choice, Lane& over) {
  if (place.made != nullptr) ++place.failures;  // it was not answered
  ++place.incarnation;
  VerbsChoice tried = choice;
  if (place.failures % 2 == 0) {
    tried.places.erase(tried.places.begin() + static_cast<ptrdiff_t>(tried.best),
                       tried.places.end());
  }
  std::string why;
  place.made = make(place, tried, false, &why);
  if (place.made == nullptr) return note_none(place, why);
  place.offer_ns =
      ground_.environment->now_ns() + std::max(pause_ns(place.failures), kOfferAnswerNs);
  say_terms(over,
            {.type = FrameType::kOffer, .message = place.lane.index, .offset = place.incarnation},
            place.made->terms());
}

bool QueuePairs::on_accept(const FrameHeader& header, std::span<const uint8_t> payload,
                           Lane& over) {
  Place* named = place(header.message);
  QueuePairTerms terms;
  if (named == nullptr || header.offset > named->incarnation || !decode(payload, &terms)) {
    return false;
  }
  if (header.offset != named->incarnation || named->made == nullptr) return true;  // late
  std::unique_ptr<QueuePair> made = std::move(named->made);
  std::string why = made->why();
  VerbsDevices& verbs = *ground_.environment->verbs();
  const int64_t now_ns = ground_.environment->now_ns();
  if (made->has_failed() || !verbs.connect(*made, terms, now_ns, &why)) {
    note_none(*named, why);
    say_decline(over, header.message, header.offset, why);
    return true;
  }
  attach(*named, std::move(made));
  queue_pair(named->lane)->probe();
  return true;
}

// The first packet sequence number is unpredictable to others: the comm's id is.
QueuePair::Use QueuePairs::use(const Place& place, bool is_receiver) const {
  const uint32_t chance = get_le<uint32_t>(id_, (place.lane.index % 4) * sizeof(uint32_t));
  const bool knows_mode_2 = ground_.environment->settings().verbs_mode >= 2;
  return {.first_psn = (chance + place.incarnation * 0x9e3779b1u) & k24Bits,
          .modes = knows_mode_2 ? kModeSend | kModeWrite : kModeSend,
          .is_receiver = is_receiver};
}

Io QueuePairs::say_lost(Lane& lane, const QueuePairName& lost) {
  if (lost.incarnation == 0 || lane.told_lost == lost) return Io::kOk;
  lane.told_lost = lost;
  std::array<uint8_t, kFrameHeaderBytes> frame;
  encode({.type = FrameType::kDecline, .message = lost.lane, .offset = lost.incarnation}, frame);
  return lane.transport->send_small(frame);
}

// ---- The side that receives ----

// An offer takes the place of what is there. It is no sign of a path that failed, which a decline
// would be: the answer may have been late.
bool QueuePairs::on_offer(const FrameHeader& header, std::span<const uint8_t> payload, Lane& over) {
  QueuePairTerms terms;
  if (!decode(payload, &terms)) return false;
  if (header.message >= kQueuePairsMax) {
    say_decline(over, header.message, header.offset, "it takes fewer queue pairs");
    return true;
  }
  grow(static_cast<size_t>(header.message) + 1);
  Place& named = *place(header.message);
  if (header.offset <= named.incarnation || is_closed_) return true;
  if (named.lane.is_up()) ground_.drop(named.lane);
  named.incarnation = static_cast<uint32_t>(header.offset);
  std::string why;
  std::unique_ptr<QueuePair> made = answer(named, terms, over, &why);
  if (made == nullptr) {
    note_none(named, why);
    say_decline(over, header.message, header.offset, why);
    return true;
  }
  const QueuePairTerms own = made->terms();
  attach(named, std::move(made));
  say_terms(over, {.type = FrameType::kAccept, .message = header.message, .offset = header.offset},
            own);
  return true;
}

// A receive that none is told of is sent in frames: so is what is small, or not registered.
size_t QueuePairs::expose(const Lane& lane, const RequestTable& receives, std::span<uint8_t> out) {
  QueuePair* over = carries(lane) ? queue_pair(lane) : nullptr;
  if (over == nullptr || over->is_blocked()) return 0;
  Places& places = over->places();
  if (!places.are_used()) return 0;
  size_t bytes = 0;
  const uint64_t first = std::max(places.exposed(), receives.finished());
  for (uint64_t message = first; message < receives.posted(); ++message) {
    const Request& receive = receives.at(message);
    if (receive.memory == nullptr || receive.bytes < kExposedBytesMin) continue;
    const auto place = places.expose(message, receive.data, receive.bytes, receive.memory);
    if (!place) continue;
    encode(*place, out.subspan(bytes).first<kFrameHeaderBytes>());
    bytes += kFrameHeaderBytes;
  }
  places.set_exposed(receives.posted());
  return bytes;
}

// The port that NCCL named here is that of the first stream. The one that brought the offer may
// have another one: with LYRE_RAILS=all, or because the first one has failed.
size_t QueuePairs::rail_of(const Lane& over) const {
  const Address& first = (*ground_.streams)[0].local_address;
  return port_at(ground_.environment->ports(), is_none(first) ? over.local_address : first);
}

std::unique_ptr<QueuePair> QueuePairs::answer(Place& place, const QueuePairTerms& terms,
                                              const Lane& over, std::string* why) {
  Environment& environment = *ground_.environment;
  VerbsDevices* verbs = environment.verbs();
  VerbsChoice choice;
  if (verbs != nullptr) {
    verbs->look(environment.now_ns());
    choice = verbs->answers(rail_of(over), environment.ports(), terms.gid);
  }
  place.own = {};
  place.remote = terms.gid;
  if (choice.places.empty()) {
    *why = why_no_place(verbs);
    return nullptr;
  }
  auto made = make(place, choice, true, why);
  const bool is_connected =
      made != nullptr && verbs->connect(*made, terms, environment.now_ns(), why);
  return is_connected ? std::move(made) : nullptr;
}

void QueuePairs::decline_again(int64_t now_ns) {
  if (is_closed_ || now_ns - declined_again_ns_ < kDeclineAgainNs) return;
  Lane* over = ground_.streams->for_queue_pairs(now_ns);
  if (over == nullptr) return;
  declined_again_ns_ = now_ns;
  for (const auto& place : places_) {
    const Lane& lane = place->lane;
    const bool is_lost = lane.attached > 0 && lane.incarnation == place->incarnation;
    if (is_lost && !lane.is_up()) {
      say_decline(*over, lane.index, lane.incarnation, "it lost the queue pair");
    }
  }
}

}  // namespace lyre::nccl_adapter
