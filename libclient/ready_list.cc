#include "libclient/ready_list.h"

#include "libclient/listener.h"

namespace lyre::client {

void ReadyList::mark(Waitable* item, uint32_t what) {
  has_news_ = true;
  if (std::exchange(item->happened, item->happened | what) != 0) return;
  item->next_ready = nullptr;
  item->previous_ready = last_;
  (last_ != nullptr ? last_->next_ready : first_) = item;
  last_ = item;
}

void ReadyList::unmark(Waitable* item) {
  if (item->happened == 0) return;
  item->happened = 0;
  (item->previous_ready != nullptr ? item->previous_ready->next_ready : first_) = item->next_ready;
  (item->next_ready != nullptr ? item->next_ready->previous_ready : last_) = item->previous_ready;
}

void ReadyList::note_refusal(lyre_session& session) {
  if (std::exchange(session.is_refused, true)) return;
  refused_.push_back(&session);
}

void ReadyList::forget_refusal(lyre_session& session) {
  if (std::exchange(session.is_refused, false)) std::erase(refused_, &session);
}

void ReadyList::tell_refused() {
  for (lyre_session* session : refused_) {
    session->is_refused = false;
    if (session->state == LYRE_OPEN && !session->is_given_up) mark(session, LYRE_EVENT_WRITABLE);
  }
  refused_.clear();
}

lyre_event ReadyList::first() const {
  lyre_event event{.struct_bytes = sizeof event};
  if (first_ == nullptr) return event;
  event.happened = first_->happened;
  if (first_->is_listener) {
    event.listener = static_cast<lyre_listener*>(first_);
  } else {
    event.session = static_cast<lyre_session*>(first_);
  }
  return event;
}

}  // namespace lyre::client
