#include "stack/io/dpdk/rx_wait.h"

#include <rte_ethdev.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <iterator>

namespace lyre::io::dpdk {

EventEdges::EventEdges() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

EventEdges::~EventEdges() {
  if (epoll_ >= 0) close(epoll_);
}

bool EventEdges::add(int eventfd) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, eventfd, &event) == 0;
}

void EventEdges::remove(int eventfd) { epoll_ctl(epoll_, EPOLL_CTL_DEL, eventfd, nullptr); }

void EventEdges::clear() {
  epoll_event events[4];
  epoll_wait(epoll_, events, std::size(events), 0);
}

std::unique_ptr<InterruptWait> InterruptWait::make(uint16_t port_id, uint16_t queue_id) {
  const int event = rte_eth_dev_rx_intr_ctl_q_get_fd(port_id, queue_id);
  if (event < 0) return nullptr;
  std::unique_ptr<InterruptWait> wait(new InterruptWait(port_id, queue_id));
  if (!wait->edges_.add(event)) return nullptr;
  // A driver that has a descriptor may still refuse to use it.
  if (!wait->arm()) return nullptr;
  wait->disarm();
  return wait;
}

/// The workers of a port call this without a lock, though drivers may keep one mask for all queues
/// (ixgbe: intr->mask, changed by read, modify, write), so that one change may undo another. A lock
/// of the workers would not end that: DPDK's interrupt thread changes that mask, too
/// (ixgbe_dev_interrupt_delayed_handler()). And a worker that is not scheduled would keep others
/// awake or asleep with it. A wake-up that is lost so costs one sleep at most (kSleepMax), and
/// after some of them in a row the queue does not trust its driver: see Queue::disarm().
bool InterruptWait::arm() { return rte_eth_dev_rx_intr_enable(port_id_, queue_id_) == 0; }

void InterruptWait::disarm() { rte_eth_dev_rx_intr_disable(port_id_, queue_id_); }

/// A driver that closed its event descriptor has removed it from the epoll instance, too.
void InterruptWait::on_restart() {
  edges_.add(rte_eth_dev_rx_intr_ctl_q_get_fd(port_id_, queue_id_));
}

}  // namespace lyre::io::dpdk
