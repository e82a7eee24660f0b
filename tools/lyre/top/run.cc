#include "tools/lyre/top/run.h"

#include <chrono>
#include <optional>
#include <utility>

#include "tools/lyre/failure.h"
#include "tools/lyre/look.h"
#include "tools/lyre/top/screen_text.h"
#include "tools/lyre/top/terminal.h"

namespace lyre::tools {
namespace {

using Clock = std::chrono::steady_clock;

class Top {
 public:
  Top(const GlobalOptions& globals, const TopOptions& options)
      : globals_(globals), interval_(options.interval_s), now_(look()) {}

  void run() {
    for (auto due = Clock::now() + interval_;;) {
      draw();
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now());
      switch (terminal_.wait_for_key(left)) {
        case Terminal::Key::kNone:
          earlier_ = std::exchange(now_, look());
          if (of_same_run(now_, &*earlier_) == nullptr) earlier_.reset();
          due = Clock::now() + interval_;
          break;
        case Terminal::Key::kQuit:
          return;
        case Terminal::Key::kSort:
          view_.order = order_after(view_.order);
          break;
        case Terminal::Key::kOther:
          break;
      }
    }
  }

 private:
  Snapshot look() const { return StatsSegment(globals_.socket_or_default()).look(); }

  void draw() {
    view_.columns = terminal_.width();
    view_.lines = terminal_.height();
    terminal_.draw(top_screen(now_, earlier_ ? &*earlier_ : nullptr, view_));
  }

  const GlobalOptions& globals_;
  const std::chrono::duration<double> interval_;
  TopView view_;
  Snapshot now_;
  std::optional<Snapshot> earlier_;
  Terminal terminal_;  ///< last: a daemon that is not there is said before the screen is cleared
};

}  // namespace

void run_top(const GlobalOptions& globals, const TopOptions& options) {
  if (globals.is_json) throw Failure(kExitUsage, "top has no --json: use `status --watch --json`");
  Terminal::require();
  Top(globals, options).run();
}

}  // namespace lyre::tools
