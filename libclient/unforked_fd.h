#pragma once

#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace lyre::client {

/// Owner of a file descriptor that a child of fork() does not have: there it is closed, and the
/// child's copy of this object is empty, so that it does not close a number that the child has used
/// again. vfork() and clone() pass the descriptor on. The code may not be unloaded.
/// Thread: one at a time for each object.
class UnforkedFd {
 public:
  UnforkedFd() = default;
  /// Owns what `open()` returns, which is a descriptor or -1; errno is as `open` left it. `open`
  /// may block: no fork() waits for it. A child of a fork() meanwhile may have what it returned, so
  /// that is closed and `open` is called again, kOpensMax times at most. Where each call meets a
  /// fork(), such a child keeps the last descriptor.
  template <typename Open>
  static UnforkedFd of(Open open) {
    UnforkedFd made;
    made.entry_ = std::make_unique<Entry>();
    for (int opens = 1;; ++opens) {
      const uint64_t before = fork_count();
      const int fd = open();
      if (made.entry_->try_add(fd, before, opens == kOpensMax)) return made;
      ::close(fd);
    }
  }
  static constexpr int kOpensMax = 4;

  int get() const { return entry_ != nullptr ? entry_->fd : -1; }
  bool is_open() const { return get() >= 0; }

 private:
  struct Entry {
    Entry() = default;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      const std::lock_guard lock(mutex_);
      if (next != nullptr) next->place = place;
      if (place != nullptr) *place = next;
      if (fd >= 0) ::close(fd);
    }
    /// False: it was opened beside a fork() that fork_count() did not know of, and is not added.
    bool try_add(int descriptor, uint64_t forks_before, bool is_last_try) {
      const std::lock_guard lock(mutex_);
      if (descriptor >= 0 && forks_ != forks_before && !is_last_try) return false;
      fd = descriptor;
      next = first_;
      place = &first_;
      if (next != nullptr) next->place = &next;
      first_ = this;
      return true;
    }

    int fd = -1;
    Entry* next = nullptr;
    Entry** place = nullptr;  ///< of the pointer to this entry
  };

  static uint64_t fork_count() {
    const std::lock_guard lock(mutex_);
    return forks_;
  }
  static void lock_all() {
    mutex_.lock();
    ++forks_;
  }
  static void unlock_all() { mutex_.unlock(); }
  static void close_all_in_child() {
    for (Entry* entry = first_; entry != nullptr; entry = entry->next) {
      if (entry->fd >= 0) ::close(std::exchange(entry->fd, -1));
    }
    unlock_all();
  }

  // Guards the list and the descriptors in it. Held for their close() as well: without it a child
  // would close a number that another file has by then. A fork() waits where that one blocks.
  static inline std::mutex mutex_;
  static inline uint64_t forks_ = 0;
  static inline Entry* first_ = nullptr;
  // At the start of the program or library, before there is a thread that could fork meanwhile.
  [[maybe_unused]] static inline const int watch_ =
      ::pthread_atfork(lock_all, unlock_all, close_all_in_child);

  std::unique_ptr<Entry> entry_;
};

}  // namespace lyre::client
