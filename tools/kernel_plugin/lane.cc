#include "tools/kernel_plugin/lane.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "tools/kernel_plugin/settings.h"

namespace lyre::kernel_plugin {
namespace {

// Idle rounds before a helper sleeps. The next piece of a burst usually arrives within a few.
constexpr int kIdleRoundsMax = 16;

}  // namespace

void Lane::push(const Piece& piece) {
  const uint32_t tail = tail_.load(std::memory_order_relaxed);
  pieces_[tail % kPiecesMax] = piece;
  // seq_cst pairs with the helper's asleep_ store and has_work() load: one of the two loads sees
  // the other thread's store.
  tail_.store(tail + 1, std::memory_order_seq_cst);
}

bool Lane::has_work() const {
  // pairs with the store in push
  return head_.load(std::memory_order_relaxed) != tail_.load(std::memory_order_seq_cst);
}

size_t Lane::progress(Direction direction, Failure* failure) {
  size_t moved = 0;
  while (has_work()) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    const Piece& piece = pieces_[head % kPiecesMax];
    uint8_t* at = piece.data + offset_;
    const size_t left = piece.bytes - offset_;
    const ssize_t n = direction == Direction::kSend
                          ? ::send(fd_.get(), at, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                          : ::recv(fd_.get(), at, left, MSG_DONTWAIT);
    if (n == 0) failure->set(Failure::kPeerClosed);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) failure->set(errno);
    if (n <= 0) return moved;
    moved += static_cast<size_t>(n);
    offset_ += static_cast<size_t>(n);
    if (offset_ < piece.bytes) continue;
    offset_ = 0;
    std::atomic<int>* pieces_left = piece.pieces_left;
    head_.store(head + 1, std::memory_order_relaxed);
    // pairs with the acquire in Comm::is_complete: the payload is in place
    pieces_left->fetch_sub(1, std::memory_order_release);
  }
  return moved;
}

Helper::Helper(std::vector<Lane*> lanes, Direction direction, Failure* failure)
    : lanes_(std::move(lanes)),
      direction_(direction),
      failure_(failure),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  // Signals go to the application's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Helper::~Helper() {
  stop_.store(true, std::memory_order_seq_cst);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof(one));
  thread_.join();
}

void Helper::wake() {
  // pairs with the seq_cst store in run(): the helper sees the piece, or this thread sees asleep_
  if (!asleep_.load(std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof(one));
}

size_t Helper::progress_all() {
  size_t moved = 0;
  for (Lane* lane : lanes_) moved += lane->progress(direction_, failure_);
  return moved;
}

void Helper::run() {
  int idle_rounds = 0;
  while (!stop_.load(std::memory_order_seq_cst)) {
    if (failure_->code.load(std::memory_order_relaxed) == 0 && progress_all() > 0) {
      idle_rounds = 0;
      continue;
    }
    if (++idle_rounds < kIdleRoundsMax) {
      sched_yield();
      continue;
    }
    idle_rounds = 0;
    sleep_until_ready();
  }
}

void Helper::sleep_until_ready() {
  asleep_.store(true, std::memory_order_seq_cst);
  pollfd entries[kDataSocketsMax + 1];
  nfds_t count = 0;
  entries[count++] = {wake_fd_.get(), POLLIN, 0};
  const bool failed = failure_->code.load(std::memory_order_relaxed) != 0;
  const short wanted = direction_ == Direction::kSend ? POLLOUT : POLLIN;
  for (Lane* lane : lanes_) {
    if (!failed && lane->has_work()) entries[count++] = {lane->fd(), wanted, 0};
  }
  if (!stop_.load(std::memory_order_seq_cst)) ::poll(entries, count, -1);
  asleep_.store(false, std::memory_order_seq_cst);
  uint64_t drained = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_fd_.get(), &drained, sizeof(drained));
}

}  // namespace lyre::kernel_plugin
