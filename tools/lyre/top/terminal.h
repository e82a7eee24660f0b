#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "tools/lyre/top/screen_text.h"

struct screen;

namespace lyre::tools {

/// The terminal as a screen, from construction to destruction; there is one.
class Terminal {
 public:
  enum class Key { kNone, kQuit, kSort, kOther };

  /// Fails: throws Failure when output or input is no terminal, or one that cannot place text.
  static void require();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  size_t width() const;   ///< columns
  size_t height() const;  ///< lines
  void draw(const std::vector<TopLine>& content);
  /// kNone when none came in that time; kOther also when the size changed.
  Key wait_for_key(std::chrono::milliseconds time);

 private:
  screen* screen_;
};

}  // namespace lyre::tools
