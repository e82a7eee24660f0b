#pragma once

#include <pthread.h>
#include <unistd.h>

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
  /// Owns what `open()` returns, which is a descriptor or -1; errno is as `open` left it. A fork()
  /// of another thread waits meanwhile. `open` must not block, and not allocate memory: an
  /// allocator that has fork handlers may have its locks by then.
  template <typename Open>
  static UnforkedFd of(Open open) {
    UnforkedFd made;
    made.entry_ = std::make_unique<Entry>();
    const std::lock_guard lock(mutex_);
    made.entry_->add(open());
    return made;
  }
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
    /// REQUIRES: mutex_ is held.
    void add(int descriptor) {
      fd = descriptor;
      next = first_;
      place = &first_;
      if (next != nullptr) next->place = &next;
      first_ = this;
    }

    int fd = -1;
    Entry* next = nullptr;
    Entry** place = nullptr;  ///< of the pointer to this entry
  };

  static void lock_all() { mutex_.lock(); }
  static void unlock_all() { mutex_.unlock(); }
  static void close_all_in_child() {
    for (Entry* entry = first_; entry != nullptr; entry = entry->next) {
      if (entry->fd >= 0) ::close(std::exchange(entry->fd, -1));
    }
    unlock_all();
  }

  // Guards the list and the descriptors in it.
  static inline std::mutex mutex_;
  static inline Entry* first_ = nullptr;
  // At the start of the program or library, before there is a thread that could fork meanwhile.
  [[maybe_unused]] static inline const int watch_ =
      ::pthread_atfork(lock_all, unlock_all, close_all_in_child);

  std::unique_ptr<Entry> entry_;
};

}  // namespace lyre::client
