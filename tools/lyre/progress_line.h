#pragma once

#include <string>

namespace lyre::tools {

/// One line on standard error that is overwritten while a command runs, and removed at its end.
/// Without a terminal there is no output.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_visible() const { return is_terminal_; }
  void show(const std::string& text);

 private:
  bool is_terminal_;
  bool is_shown_ = false;
};

}  // namespace lyre::tools
