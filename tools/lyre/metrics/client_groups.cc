#include "tools/lyre/metrics/client_groups.h"

#include <algorithm>

#include "tools/lyre/clients.h"
#include "tools/lyre/metrics/family_list.h"

namespace lyre::tools {

void ClientGroups::look(const Snapshot& daemon, int64_t now_ns) {
  places_.forget_old(now_ns);
  groups_.clear();
  for (const channel::ClientView& view : daemon.client_views) {
    ClientGroup& group = groups_[places_.of(view.uid, label_text(view.label), now_ns)];
    group.sessions += view.sessions;
    group.unfinished_sends += view.sends_under_way;
    group.slots_held += view.rx_slots_held;
    group.slots_lent += view.rx_slots_lent;
    group.limit_ratio = std::max(group.limit_ratio, receive_limit_ratio(view));
  }
}

}  // namespace lyre::tools
