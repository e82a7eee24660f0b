#include "stack/worker/control_replies.h"

#include <sys/eventfd.h>

#include "stack/base/check.h"

namespace lyre::worker {

void ControlReplies::post(Reply reply) {
  // Until the control thread has taken kDetached it does not use the index of a context again, and
  // until then there are two replies: kExpelled and kDetached. Each region has one: the control
  // thread says nothing more about it, nor uses its index again, before it has taken that. A client
  // may have as many removals under way as regions, while a port holds on to their memory. Each
  // capture has one, and the end of the daemon one.
  constexpr uint32_t kOfContexts = 2 * kContextsMax;
  constexpr uint32_t kOfRegions = kRegionsMax - kContextsMax;
  static_assert(Outbox::kCapacity >= kOfContexts + kOfRegions + kCapturesMax + 1);
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
