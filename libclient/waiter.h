#pragma once

#include <atomic>
#include <cstdint>

#include "libclient/own_thread.h"
#include "libclient/resources.h"
#include "libclient/starvation.h"
#include "stack/base/core_contention.h"
#include "stack/channel/ring.h"

namespace lyre::client {

/// For a thread that yields while it waits for a worker, which has short slices: on its core it
/// would otherwise run a dozen times before this thread (stack/base/time_slice.h). They stay short.
/// Threads and processes that the thread makes later inherit them.
void shorten_time_slices();

/// How a context waits: it yields while an answer may be near and the core is otherwise idle, and
/// sleeps until its workers ring or the control socket has something. `has_work` says whether
/// completions wait; it is called once the workers know that they have to ring.
/// Thread: the context's.
class Waiter {
 public:
  /// `wake`: the eventfd of the workers. *Takes* it; *borrows* `control`, the control socket, and
  /// `sleeps`, the flag that makes the workers ring. 0 or a LYRE_E code.
  int adopt(UniqueFd wake, int control, std::atomic<uint32_t>& sleeps);

  /// Readable when the workers rang or the control socket has something: for other event loops.
  int poll_fd() const { return poll_fd_.get(); }
  /// The workers ring from now on. False: there is work, do not wait.
  template <typename HasWork>
  bool arm(HasWork has_work) {
    is_armed_ = true;
    return channel::announce_sleep(*sleeps_, has_work);
  }
  /// Makes poll_fd() readable after `wait_ns` too, until disarm(): for what no worker rings for. To
  /// be called before arm(). A timer that is set stays as it is: a caller that arms often would not
  /// see it expire. False: there is no timer.
  bool set_timer(int64_t wait_ns);
  /// Ends what arm() and set_timer() began. False: it was not armed.
  bool disarm();

  /// Yields once, if that makes sense after `idle_ns` without work. False: sleep().
  bool yield(int64_t now, int64_t idle_ns);
  /// Sleeps at most `wait_ns`. True: the control socket has something.
  /// While another thread waits for poll_fd(), it takes the ring that was meant for that thread,
  /// and the workers do not ring again: poll_fd() is readable afterwards, until disarm().
  template <typename HasWork>
  bool sleep(int64_t wait_ns, HasWork has_work) {
    const bool is_control =
        channel::announce_sleep(*sleeps_, has_work) && sleep_until_ring(wait_ns);
    wake_armed();
    return is_control;
  }

  /// For a caller that yields by itself between two rests, see lyre_rest(). True: it should sleep.
  /// Calls shorten_time_slices().
  /// Where the calling thread hardly gets its core, it goes to others first, for a while.
  bool must_rest(int64_t now);
  /// Ends that while.
  void look(int64_t now) {
    if (now >= away_until_) come_back();
  }

 private:
  bool watch(int fd);
  bool make_timer();
  bool sleep_until_ring(int64_t wait_ns);
  void wake_armed();
  void come_back() {
    away_until_ = INT64_MAX;
    core_avoidance_.end();
  }

  UniqueFd wake_;
  UniqueFd poll_fd_;
  UniqueFd timer_;  ///< made by the first set_timer()
  int control_ = -1;
  std::atomic<uint32_t>* sleeps_ = nullptr;
  bool is_armed_ = false;
  bool is_timer_set_ = false;
  CoreContention contention_;
  Starvation starvation_;
  CoreAvoidance core_avoidance_;
  int64_t away_until_ = INT64_MAX;
};

}  // namespace lyre::client
