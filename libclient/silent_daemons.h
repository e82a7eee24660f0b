#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace lyre::client {

/// Which daemons did not answer a question about memory for as long as an upgrade may take. Each
/// context of the process would wait as long for one that is stopped, and those of a job are closed
/// one after the other. Times are of the monotonic clock.
/// Thread: any. Without locks and allocation: a child of fork() may use what it got.
class SilentDaemons {
 public:
  /// An upgrade may pause the daemon for 45 s: see docs/user/operations.md. The rest is for what it
  /// does before and after the pause. A daemon that ends hangs up, which is noticed at once.
  static constexpr int kPatienceMs = 60'000;
  /// For one that did not answer within that, and has said nothing since.
  static constexpr int kShortPatienceMs = 2000;
  /// That is forgotten so long after the last question without an answer.
  static constexpr int64_t kFreshNs = 300'000'000'000;

  /// How long a question to the daemon behind the socket `path` may wait.
  int patience_ms(std::string_view path, int64_t now_ns);
  /// It answered, or another one answered there.
  void on_answer(std::string_view path, int64_t now_ns);
  /// It said nothing within patience_ms() of a question asked then.
  void on_silence(std::string_view path, int64_t asked_ns, int64_t now_ns);

 private:
  /// More sockets than a process uses. What has no place here has the whole patience.
  static constexpr size_t kDaemonsMax = 16;

  struct Daemon {
    std::atomic<uint64_t> name{0};  ///< a hash of the path; 0: free
    std::atomic<int64_t> heard_ns{0};
    std::atomic<int64_t> silent_ns{0};
  };

  /// nullptr: not known.
  Daemon* find(std::string_view path);
  /// nullptr: there is no room.
  Daemon* find_or_add(std::string_view path);

  std::array<Daemon, kDaemonsMax> daemons_;
};

/// Those of this process.
SilentDaemons& silent_daemons();

}  // namespace lyre::client
