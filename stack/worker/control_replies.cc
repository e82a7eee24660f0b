#include "stack/worker/control_replies.h"

#include <sys/eventfd.h>

#include "stack/base/check.h"

namespace lyre::worker {

void ControlReplies::post(Reply reply) {
  // The outbox has room for four replies of every context. Until the control thread has taken
  // kDetached it does not use the index again, and until then there are three at most: kExpelled,
  // kDetached, and one about memory, for a client is served one request about memory at a time.
  // Each capture has one.
  static_assert(Outbox::kCapacity >= 3 * kContextsMax + kCapturesMax + 1);
  LYRE_CHECK(outbox_.try_post(reply));
  if (state_.config.reply_fd >= 0) (void)!eventfd_write(state_.config.reply_fd, 1);
}

void ControlReplies::expel(Context& context, const char* reason) {
  context.state = Context::State::kExpelled;
  state_.stats.worker->clients_expelled.add(1);
  post({.kind = Reply::Kind::kExpelled,
        .context = state_.contexts.index_of(context),
        .reason = reason});
}

}  // namespace lyre::worker
