#include "libclient/own_thread.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "libclient/resources.h"

namespace lyre::client {

namespace {

/// Takes the number at the beginning of `text`, and the blank before it. False: there is none.
bool take_number(std::string_view* text, int64_t* out) {
  if (text->starts_with(' ')) text->remove_prefix(1);
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *out);
  if (error != std::errc{}) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

/// What a context made of the thread's affinity, and what that was. Another context of the same
/// thread must not take the former for the thread's own.
struct Narrowed {
  cpu_set_t allowed{};
  cpu_set_t others{};
};
thread_local Narrowed narrowed;

}  // namespace

std::optional<RunDelay> read_run_delay() {
  const UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  char bytes[96];
  const ssize_t count = ::read(file.get(), bytes, sizeof bytes);
  if (count <= 0) return std::nullopt;
  std::string_view text(bytes, static_cast<size_t>(count));
  RunDelay delay{.thread = static_cast<int>(::syscall(SYS_gettid))};
  int64_t ran_ns = 0;
  const bool is_complete = take_number(&text, &ran_ns) && take_number(&text, &delay.waited_ns) &&
                           take_number(&text, &delay.turns);
  return is_complete ? std::optional(delay) : std::nullopt;
}

bool CoreAvoidance::begin() {
  end();
  const int core = ::sched_getcpu();
  if (core < 0 || ::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return false;
  if (CPU_EQUAL(&allowed_, &narrowed.others)) allowed_ = narrowed.allowed;
  others_ = allowed_;
  CPU_CLR(static_cast<size_t>(core), &others_);
  if (CPU_COUNT(&others_) == 0) return false;
  if (::sched_setaffinity(0, sizeof others_, &others_) != 0) return false;
  thread_ = static_cast<int>(::syscall(SYS_gettid));
  narrowed = {.allowed = allowed_, .others = others_};
  return true;
}

void CoreAvoidance::end() {
  const int thread = std::exchange(thread_, 0);
  cpu_set_t now;
  if (thread == 0 || ::sched_getaffinity(thread, sizeof now, &now) != 0) return;
  if (!CPU_EQUAL(&now, &others_)) return;
  ::sched_setaffinity(thread, sizeof allowed_, &allowed_);
  if (thread == static_cast<int>(::syscall(SYS_gettid))) narrowed = {};
}

}  // namespace lyre::client
