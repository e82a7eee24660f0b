#include "tools/lyre/top/terminal.h"

// As functions: the macros have names like timeout. Those of term.h stay: lines, columns.
#define NCURSES_NOMACROS
#include <ncurses.h>
#include <poll.h>
#include <term.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

constexpr const char* kInstead = "; `lyre status --watch` prints lines";

}  // namespace

void Terminal::require() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    throw Failure(kExitFailure, std::string("top needs a terminal") + kInstead);
  }
  int error = 0;
  const bool is_known = ::setupterm(nullptr, STDOUT_FILENO, &error) == OK;
  if (!is_known || ::tigetstr("cup") == nullptr) {
    const char* name = std::getenv("TERM");
    throw Failure(kExitFailure, "top cannot place text on a terminal of type '" +
                                    std::string(name != nullptr ? name : "") + "' (TERM)" +
                                    kInstead);
  }
}

Terminal::Terminal() : screen_(::newterm(nullptr, stdout, stdin)) {
  if (screen_ == nullptr) throw Failure(kExitFailure, "the terminal cannot be made a screen");
  ::cbreak();
  ::noecho();
  ::curs_set(0);
  ::keypad(stdscr, TRUE);
  ::wtimeout(stdscr, 0);
}

Terminal::~Terminal() {
  ::endwin();
  ::delscreen(screen_);
}

size_t Terminal::width() const { return static_cast<size_t>(std::max(::getmaxx(stdscr), 1)); }
size_t Terminal::height() const { return static_cast<size_t>(std::max(::getmaxy(stdscr), 1)); }

void Terminal::draw(const std::vector<TopLine>& content) {
  ::werase(stdscr);
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i].is_title) ::wattr_on(stdscr, A_BOLD, nullptr);
    ::wmove(stdscr, static_cast<int>(i), 0);
    ::waddnstr(stdscr, content[i].text.c_str(), static_cast<int>(content[i].text.size()));
    if (content[i].is_title) ::wattr_off(stdscr, A_BOLD, nullptr);
  }
  ::wrefresh(stdscr);
}

Terminal::Key Terminal::wait_for_key(std::chrono::milliseconds time) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&input, 1, static_cast<int>(std::max<int64_t>(time.count(), 0)));
  if (ready == 0) return Key::kNone;
  // Also when a signal ended the wait: that the size changed is read like a key.
  switch (::wgetch(stdscr)) {
    case ERR:
      return (input.revents & (POLLHUP | POLLERR)) != 0 ? Key::kQuit : Key::kOther;
    case 'q':
    case 'Q':
      return Key::kQuit;
    case 's':
      return Key::kSort;
    default:
      return Key::kOther;
  }
}

}  // namespace lyre::tools
