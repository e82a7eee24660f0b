#include "daemon/memory/foreign_closer.h"

#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/memory/client_memory.h"

namespace lyre {
namespace {

/// Takes what waits, up to a message that has descriptors, for which there is no room here. True:
/// there is none. With SO_PASSCRED each message has credentials, so that an empty one is told from
/// the end. REQUIRES: nothing more arrives.
bool take_up_to_descriptors(int socket) {
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return false;
  int error = 0;
  socklen_t error_bytes = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &error_bytes);  // would hide what waits
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    char byte;  // qemu-user asks the kernel for no message that has no room
    iovec room{&byte, sizeof byte};
    msghdr message{};
    message.msg_iov = &room;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT) < 0) return false;  // it listens
    if ((message.msg_flags & MSG_CTRUNC) != 0) return false;
    if (message.msg_controllen == 0) return true;
    if (::recv(socket, nullptr, 0, MSG_DONTWAIT) < 0) return false;
  }
}

}  // namespace

struct ForeignCloser::Queues {
  struct User {
    std::deque<OwnedFd> waiting;
    size_t count = 0;  ///< of `waiting`, and the one that is being closed
    bool has_thread = false;
  };
  using Users = std::map<uint64_t, User>;  ///< those with descriptors

  /// A user that has descriptors and no thread.
  Users::iterator find_without_thread() {
    return std::find_if(users.begin(), users.end(),
                        [](const auto& entry) { return !entry.second.has_thread; });
  }
  void close_all_of(Users::iterator user, std::unique_lock<std::mutex>& lock);
  /// A thread: for the user whose it is, then for those that have none.
  void run(uint64_t first);

  std::mutex mutex;  ///< guards the rest
  Users users;
  size_t threads = 0;
};

/// REQUIRES: `has_thread` was set for this thread.
void ForeignCloser::Queues::close_all_of(Users::iterator user, std::unique_lock<std::mutex>& lock) {
  while (!user->second.waiting.empty()) {
    OwnedFd next = std::move(user->second.waiting.front());
    user->second.waiting.pop_front();
    lock.unlock();
    next.reset();
    lock.lock();
    --user->second.count;
  }
  users.erase(user);
}

void ForeignCloser::Queues::run(uint64_t first) {
  std::unique_lock lock(mutex);
  for (auto next = users.find(first); next != users.end(); next = find_without_thread()) {
    next->second.has_thread = true;
    close_all_of(next, lock);
  }
  --threads;
}

ForeignCloser::ForeignCloser(StartThread start_thread)
    : start_thread_(std::move(start_thread)), queues_(std::make_shared<Queues>()) {}
ForeignCloser::~ForeignCloser() = default;

void ForeignCloser::close(OwnedFd descriptor, uint64_t user) {
  if (!descriptor.is_open()) return;
  if (is_memory_file(descriptor.get()) && is_freed_at_once(descriptor.get())) return;
  enqueue(std::move(descriptor), user);
}

void ForeignCloser::close_socket(OwnedFd socket, uint64_t user) {
  if (!socket.is_open()) return;
  ::shutdown(socket.get(), SHUT_RDWR);  // nothing more arrives
  if (!take_up_to_descriptors(socket.get())) enqueue(std::move(socket), user);
}

void ForeignCloser::start_detached(std::function<void()> run) {
  std::thread(std::move(run)).detach();
}

void ForeignCloser::enqueue(OwnedFd descriptor, uint64_t user) {
  {
    const std::lock_guard lock(queues_->mutex);
    Queues::User& owner = queues_->users[user];
    owner.waiting.push_back(std::move(descriptor));
    ++owner.count;
  }
  start_threads();
}

/// For all who wait without one: the system may have given none when they began to.
void ForeignCloser::start_threads() {
  const std::lock_guard lock(queues_->mutex);
  while (queues_->threads < kThreadsMax) {
    const auto user = queues_->find_without_thread();
    if (user == queues_->users.end() || !start_thread_for(user->first)) return;
    user->second.has_thread = true;
    ++queues_->threads;
  }
}

/// False: the descriptors stay open until there is a thread. The daemon must not wait for a client.
bool ForeignCloser::start_thread_for(uint64_t user) {
  try {
    start_thread_([queues = queues_, user] { queues->run(user); });
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool ForeignCloser::has_room(uint64_t user) {
  if (waiting_count(user) < kWaitingPerUserMax) return true;
  start_threads();
  return false;
}

size_t ForeignCloser::waiting_count(uint64_t user) const {
  const std::lock_guard lock(queues_->mutex);
  const auto found = queues_->users.find(user);
  return found == queues_->users.end() ? 0 : found->second.count;
}

size_t ForeignCloser::thread_count() const {
  const std::lock_guard lock(queues_->mutex);
  return queues_->threads;
}

}  // namespace lyre
